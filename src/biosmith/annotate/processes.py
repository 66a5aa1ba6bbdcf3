"""Chunks of documents through several processes of this machine, or through this one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

from biosmith.annotate.annotator import Annotator
from biosmith.annotate.units import Chunk
from biosmith.annotate.work import (
    Encoding,
    Options,
    Outcome,
    begin,
    encode_chunk,
    join_outcomes,
    lost_chunk,
    work,
)
from biosmith.errors import BiosmithError
from biosmith.machine import usable_cores
from biosmith.processes import map_in_order, run_alone
from biosmith.progress import say
from biosmith.text.document import Document

# This many documents that each end the process they are in, one after the other, and it is not the documents.
MOST_KILLS = 5


def annotate_here(chunks: Iterable[Chunk], nlp: Annotator, encoding: Encoding) -> Iterator[Outcome]:
    """The outcome of each chunk, in order; the next ones are read and laid out while an engine computes."""
    waiting: deque[Chunk] = deque()

    def documents() -> Iterator[Sequence[Document]]:
        for chunk in chunks:
            waiting.append(chunk)
            yield chunk.documents

    for done in nlp.annotate_chunks(documents()):
        yield encode_chunk(waiting.popleft(), done, encoding)


def annotate_in_processes(
    chunks: Iterable[Chunk], models: Sequence[Path], options: Options, encoding: Encoding
) -> Iterator[Outcome]:
    """As `annotate_here`, in `options.workers` processes.

    When a process is killed (by the system for memory, by a fault in an engine), the chunks that were under way are
    done again, and a document that ends its process every time is listed as failed.

    Raises:
        BiosmithError: an annotator cannot be opened, or processes are killed whatever they do.
    """
    arguments = (list(models), options, encoding, max(1, usable_cores() // options.workers))
    kills = 0

    def rescue(chunk: Chunk) -> Iterator[Outcome]:
        nonlocal kills
        try:
            outcome = run_alone(work, chunk, initializer=begin, arguments=arguments)
        except BrokenProcessPool as error:
            if len(chunk.documents) > 1:
                half = len(chunk.documents) // 2
                parts = (
                    replace(chunk, documents=chunk.documents[:half]),
                    replace(chunk, documents=chunk.documents[half:], rejects=[]),
                )
                yield join_outcomes([outcome for part in parts for outcome in rescue(part)])
                return
            kills += 1
            if kills > MOST_KILLS:
                raise BiosmithError(
                    "worker processes are killed again and again (is there enough memory?); what is finished is kept, "
                    "--resume goes on"
                ) from error
            outcome = lost_chunk(chunk, "the process that annotated it was killed")
        else:
            kills = 0
        yield outcome

    def rescue_aloud(chunk: Chunk) -> Iterator[Outcome]:
        say(f"A worker process was killed; doing {len(chunk.documents):,} documents again by themselves")
        return rescue(chunk)

    return map_in_order(
        work, chunks, options.workers, initializer=begin, arguments=arguments, rescue=rescue_aloud
    )
