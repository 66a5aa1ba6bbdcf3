"""The same chunks through the machines of a Ray cluster: units are read where there is room, chunks annotated by actors.

Ray Data streams: units -> chunks -> outcomes, with as much under way as its memory allows. An actor or a machine that is
lost costs time only: Ray does its chunks again elsewhere, and each outcome is taken once, in the order of the input.
"""

from __future__ import annotations

import logging
import pickle
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from biosmith.annotate.units import Chunk, Unit, read_chunks
from biosmith.annotate.work import Encoding, Options, Outcome, annotate_chunk, join_outcomes, lost_chunk
from biosmith.errors import BiosmithError, UsageError

BLOCK_BYTES = (
    2**20
)  # Ray hands blocks on when they are full; small ones, so that no actor waits for a whole unit
READING_CORES = 0.25  # reading is cheap beside annotating
TRIES = (
    2  # of a chunk whose process is killed, before its documents are done one by one, and of each of those
)
CONNECT_SECONDS = 10.0

Row = dict[str, Any]


def annotate_on_cluster(
    units: Iterable[Unit],
    done: Mapping[int, tuple[int, bool]],
    models: Sequence[Path],
    options: Options,
    encoding: Encoding,
    address: str,
) -> Iterator[Outcome]:
    """The outcomes of the chunks that are left to do, in order, as `annotate_here` gives them.

    Args:
        units: what to read; their files and the models must be found under the same paths on every machine.
        done: unit -> how many of its chunks are finished, and whether all of them are.
        models: tuned taggers.
        options: how; `workers` is the number of actors at most, 1 for as many as there are cores.
        encoding: of the payloads.
        address: of the cluster ("auto", "local", "HOST:PORT", "ray://HOST:PORT").

    Raises:
        UsageError: Ray is not installed, or there is no cluster at the address.
        BiosmithError: the work failed on the cluster, for example because a document ends every process it is in.
    """
    left = [(u, done.get(u.number, (0, False))[0]) for u in units if not done.get(u.number, (0, False))[1]]
    if not left:
        return
    ray, ours = _connect(address)
    try:
        rows = _stream(ray, left, models, options, encoding)
        yield from _in_order(rows, [(unit.number, skip) for unit, skip in left])
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, BiosmithError):
            raise cause from error
        reason = str(error).strip().splitlines()[-1]
        raise BiosmithError(
            f"the cluster gave up: {reason}; what is finished is kept, --resume goes on"
        ) from error
    finally:
        if ours:
            ray.shutdown()


def _connect(address: str) -> tuple[Any, bool]:
    """Ray, connected, and whether that was done here."""
    try:
        import ray
        import ray.data
        import ray.exceptions
    except ImportError as error:
        raise UsageError("--cluster needs Ray; install biosmith[cluster]") from error
    if ray.is_initialized():
        return ray, False
    _require_listening(address)
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"there is no Ray cluster at {address!r}: {str(error).splitlines()[0]}") from error
    return ray, True


def _require_listening(address: str) -> None:
    """Raise UsageError where nothing takes a connection at HOST:PORT; Ray itself tries again for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return  # "auto", "local", or what Ray refuses at once
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"there is no Ray cluster at {address!r}: {error}") from error


def _stream(
    ray: Any, left: Sequence[tuple[Unit, int]], models: Sequence[Path], options: Options, encoding: Encoding
) -> Iterator[Row]:
    """Rows of unit, number and pickled outcome, in any order, perhaps more than once."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context.target_max_block_size = BLOCK_BYTES
    context.execution_options.preserve_order = True
    cores = int(ray.cluster_resources().get("CPU", 1))
    actors = options.workers if options.workers > 1 else max(1, cores)
    cards = 1 if options.device.startswith("cuda") else 0
    if options.link is not None:
        options = replace(options, link=options.link.absolute())
    attempts = ray.remote(_Attempts).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
    given = [
        {"unit": pickle.dumps(_absolute(unit)), "skip": skip, "shown": pickle.dumps(unit)}
        for unit, skip in left
    ]
    chunks = ray.data.from_items(given, override_num_blocks=len(given)).map_batches(
        _read, batch_size=1, num_cpus=READING_CORES
    )
    outcomes = chunks.map_batches(
        _Worker,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=actors),
        fn_constructor_args=([model.resolve() for model in models], options, encoding, attempts),
        num_cpus=1 - READING_CORES if cores == 1 else 1,
        num_gpus=cards,
    )
    return iter(outcomes.iter_rows())


def _in_order(rows: Iterable[Row], expected: Sequence[tuple[int, int]]) -> Iterator[Outcome]:
    """Each outcome once: chunks of a unit by number, units as expected; those that come early wait."""
    early: dict[tuple[int, int], Row] = {}
    units = iter(expected)
    next_one: tuple[int, int] | None = next(units, None)
    for row in rows:
        early[int(row["unit"]), int(row["number"])] = row
        while next_one is not None and next_one in early:
            outcome: Outcome = pickle.loads(early.pop(next_one)["outcome"])
            yield outcome
            next_one = next(units, None) if outcome.last else (outcome.unit, outcome.number + 1)
    if next_one is not None:
        raise BiosmithError(
            f"the cluster lost chunk {next_one[1]} of unit {next_one[0]}; what is finished is kept, --resume goes on"
        )


def _absolute(unit: Unit) -> Unit:
    """With paths that mean the same in every folder."""
    return replace(unit, paths=tuple(path.absolute() for path in unit.paths))


def _read(batch: Mapping[str, Any]) -> Iterator[Row]:
    """The chunks of a unit; runs on the cluster."""
    unit, shown = pickle.loads(batch["unit"][0]), pickle.loads(batch["shown"][0])
    names = {str(a): str(b) for a, b in zip(unit.paths, shown.paths, strict=True)}
    for chunk in read_chunks(unit, int(batch["skip"][0])):
        for item in chunk.rejects:
            given = next((a for a in names if item["file"].startswith(a)), None)
            if given is not None:  # listed as the user named it
                item["file"] = names[given] + item["file"][len(given) :]
        yield {"unit": [chunk.unit], "number": [chunk.number], "chunk": [pickle.dumps(chunk)]}


class _Attempts:
    """Counts, for all actors, how often something was begun and not ended: what kills its process Ray itself would do
    again for ever."""

    def __init__(self) -> None:
        self.open: Counter[tuple[int, ...]] = Counter()

    def begin(self, *place: int) -> int:
        self.open[place] += 1
        return self.open[place]

    def end(self, *place: int) -> None:
        del self.open[place]


class _Worker:
    """Holds the models in one process of the cluster."""

    def __init__(self, models: Sequence[Path], options: Options, encoding: Encoding, attempts: Any) -> None:
        self.nlp, self.encoding, self.attempts = options.open(models, threads=1), encoding, attempts

    def __call__(self, batch: Mapping[str, Any]) -> Row:
        chunk: Chunk = pickle.loads(batch["chunk"][0])
        outcome = self._annotate(chunk, chunk.unit, chunk.number) if chunk.documents else Outcome.of(chunk)
        if outcome is None:
            outcome = join_outcomes([self._annotate_one(chunk, i) for i in range(len(chunk.documents))])
        return {"unit": [outcome.unit], "number": [outcome.number], "outcome": [pickle.dumps(outcome)]}

    def _annotate_one(self, chunk: Chunk, index: int) -> Outcome:
        alone = replace(
            chunk, documents=chunk.documents[index : index + 1], rejects=[] if index else chunk.rejects
        )
        done = self._annotate(alone, chunk.unit, chunk.number, index)
        return done or lost_chunk(alone, "the processes that annotated it were killed")

    def _annotate(self, chunk: Chunk, *place: int) -> Outcome | None:
        """The outcome of a chunk; None if process after process was killed while at it."""
        import ray

        if int(ray.get(self.attempts.begin.remote(*place))) > TRIES:
            return None
        outcome = annotate_chunk(self.nlp, chunk, self.encoding)
        self.attempts.end.remote(*place)
        return outcome
