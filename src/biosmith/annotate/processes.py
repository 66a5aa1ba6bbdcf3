"""The same work in several processes: chunks of documents go out, annotated ones come back in order."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from biosmith.annotate.annotator import Annotator, Counts
from biosmith.errors import BiosmithError
from biosmith.rejects import Rejects
from biosmith.text.document import Document

Result = tuple[int, list[Document], Counts, list[dict[str, str]]]

_nlp: Annotator | None = None


def annotate_in_processes(
    chunks: Iterator[list[Document]], models: Sequence[Path], options: Mapping[str, Any]
) -> Iterator[Result]:
    """For each chunk, in order: documents read, documents annotated, counts, failures.

    Raises:
        BiosmithError: a process was killed from outside; what was finished is kept.
    """
    workers = int(options["workers"])
    threads = max(1, (os.cpu_count() or 1) // workers)
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(list(models), dict(options), threads),
    )
    waiting: deque[Future[Result]] = deque()
    try:
        for chunk in chunks:
            waiting.append(pool.submit(_annotate, chunk))
            if len(waiting) >= 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise BiosmithError(
            "a worker process was killed (out of memory?); the same command with --resume goes on"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(models: list[Path], options: dict[str, Any], threads: int) -> None:
    import torch

    from biosmith.annotate import load

    global _nlp
    torch.set_num_threads(threads)
    _nlp = load(
        models,
        engine=options["engine"],
        device=options["device"],
        on_long=options["on_long"],
        keep=options["keep"],
    )


def _annotate(chunk: list[Document]) -> Result:
    assert _nlp is not None
    _nlp.counts = Counts()
    rejects = Rejects()
    done = _nlp.annotate_chunk(chunk, rejects)
    return len(chunk), done, _nlp.counts, rejects.items
