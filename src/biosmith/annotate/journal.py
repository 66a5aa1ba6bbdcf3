"""What a run has finished, in a folder beside its output, so that no kill loses a document or brings one twice.

`documents.jsonl` (or `.arrow`) grows by the payload of one chunk after the other, `journal.jsonl` by one line for each,
written when its payload is on the disk. What the last lines do not vouch for is cut off when the journal is opened.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from biosmith.annotate.annotator import Counts
from biosmith.annotate.work import Encoding, Outcome
from biosmith.artefact import write_json
from biosmith.errors import UsageError
from biosmith.processes import lock_file
from biosmith.progress import say
from biosmith.rejects import Rejects
from biosmith.text import formats
from biosmith.text.document import Document

PLAN, JOURNAL, LOCK = "plan.json", "journal.jsonl", "lock"
SYNC_EVERY_SECONDS = 1.0


@dataclass
class Finished:
    """What the lines of a journal vouch for, added up; the lines themselves stay on the disk.

    Attributes:
        chunks: how many.
        read: documents of the input that are done with, well or not.
        relations: in the payloads.
        end: bytes of the payloads.
        counts: see `Counts`.
        units: unit -> how many of its chunks are finished, and whether all of them are.
    """

    chunks: int = 0
    read: int = 0
    relations: int = 0
    end: int = 0
    counts: Counts = field(default_factory=Counts)
    units: dict[int, tuple[int, bool]] = field(default_factory=dict)

    def add(self, line: dict[str, Any]) -> None:
        """Add the next line."""
        self.chunks += 1
        self.read += line["read"]
        self.relations += line["relations"]
        self.end = line["end"]
        self.counts.add(Counts(**line["counts"]))
        self.units[line["unit"]] = line["number"] + 1, line["last"]


class Journal:
    """The finished part of a run.

    Args:
        out: the file that the run makes.
        plan: digest of all that decides its content.
        encoding: how payloads are encoded.
        resume: go on with what is there, if anything is.

    Attributes:
        finished: what is safely on the disk.

    Raises:
        UsageError: another process is at it, or what is there was begun with another plan.
    """

    def __init__(self, out: Path, plan: str, encoding: Encoding, resume: bool) -> None:
        self.folder = out.with_name(f".{out.name}.partial")
        self.documents_file = self.folder / f"documents.{encoding}"
        self.encoding = encoding
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self.folder / LOCK, out)
        self._data: IO[bytes] | None = None
        self._log: IO[bytes] | None = None
        try:
            self._settle(out, plan, resume)
            self.finished = Finished()
            self._open(self._read_sound_lines())
        except BaseException:
            self.close()
            raise
        self._end = self.finished.end  # of what is written, safe or not
        self._unsynced: list[dict[str, Any]] = []
        self._synced_at = time.monotonic()
        if self.finished.chunks:
            say(f"Going on after {self.finished.read:,} documents, as found in {self.folder}")

    def _settle(self, out: Path, plan: str, resume: bool) -> None:
        file = self.folder / PLAN
        if resume and file.is_file():
            if json.loads(file.read_text(encoding="utf-8")) != {"digest": plan}:
                raise UsageError(f"{out} was begun with other inputs, models or options; leave --resume out")
            return
        journal = self.folder / JOURNAL
        if journal.is_file() and journal.stat().st_size:
            say(
                f"{out} begins anew, and what a stopped run had finished is dropped; --resume would go on from there"
            )
        for name in (PLAN, JOURNAL, self.documents_file.name):
            (self.folder / name).unlink(missing_ok=True)
        write_json(file, {"digest": plan})

    def _read_sound_lines(self) -> int:
        """Add up the lines whose payloads are there, and say how many bytes they are; a kill may have left half a line,
        a crash of the system more."""
        file = self.folder / JOURNAL
        if not file.is_file():
            return 0
        size = self.documents_file.stat().st_size if self.documents_file.is_file() else 0
        sound = 0
        with file.open("rb") as stream:
            for raw in stream:
                try:
                    line = json.loads(raw)
                except ValueError:
                    break
                if not raw.endswith(b"\n") or line["end"] > size:
                    break
                self.finished.add(line)
                sound += len(raw)
        return sound

    def _open(self, sound: int) -> None:
        self._log = (self.folder / JOURNAL).open("ab")
        self._log.truncate(sound)
        self._data = self.documents_file.open("ab")
        self._data.truncate(self.finished.end)

    def add(self, outcome: Outcome) -> None:
        """Note down a chunk; it is safe when `sync` has run, which happens every second."""
        assert self._data is not None
        self._data.write(outcome.payload)
        self._end += len(outcome.payload)
        line = {
            "unit": outcome.unit,
            "number": outcome.number,
            "last": outcome.last,
            "read": outcome.read,
            "end": self._end,
            "counts": vars(outcome.counts),
            "relations": outcome.relations,
            "failures": outcome.failures,
            "rejects": outcome.rejects,
        }
        self._unsynced.append(line)
        if time.monotonic() - self._synced_at >= SYNC_EVERY_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Bring everything added onto the disk: payloads first, then the lines that vouch for them."""
        assert self._data is not None and self._log is not None
        _to_disk(self._data)
        self._log.write(b"".join(_dump(line) for line in self._unsynced))
        _to_disk(self._log)
        for line in self._unsynced:
            self.finished.add(line)
        self._unsynced = []
        self._synced_at = time.monotonic()

    def _lines(self) -> Iterator[dict[str, Any]]:
        """The lines of the finished chunks, from the disk: there may be hundreds of thousands."""
        with (self.folder / JOURNAL).open("rb") as stream:
            for raw in itertools.islice(stream, self.finished.chunks):
                yield json.loads(raw)

    def listed(self) -> Iterator[dict[str, str]]:
        """What finished chunks set aside: records that could not be read, documents that failed."""
        for line in self._lines():
            yield from line["rejects"]
            yield from line["failures"]

    def documents(self) -> Iterator[Document]:
        """All finished documents, in the order of the input; for payloads in JSON lines."""
        if self.documents_file.stat().st_size:
            yield from formats.read(self.documents_file, format="jsonl", rejects=Rejects(strict=True))

    def tables(self) -> Iterator[pa.Table]:
        """All finished documents, a chunk or less in a table; for payloads in Arrow's form."""
        before = 0
        with self.documents_file.open("rb") as stream:
            for line in self._lines():
                size, before = line["end"] - before, line["end"]
                payload = pa.BufferReader(stream.read(size))
                while payload.tell() < size:  # a chunk that was done in parts has several
                    yield pa.ipc.open_stream(payload).read_all()

    def close(self) -> None:
        """Let go of the folder; it stays."""
        for stream in (self._data, self._log):
            if stream is not None:
                stream.close()
        self._lock.close()

    def remove(self) -> None:
        """Remove the folder and let go of it, in this order: another process may be waiting for it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.close()
        if sys.platform == "win32":  # where open files stay
            shutil.rmtree(self.folder, ignore_errors=True)


def _dump(line: dict[str, Any]) -> bytes:
    return (json.dumps(line) + "\n").encode()


def _to_disk(stream: IO[bytes]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _lock(path: Path, out: Path) -> IO[bytes]:
    """Hold a file as long as this process lives, however it ends.

    Raises:
        UsageError: another process holds it.
    """
    stream = path.open("ab")
    if not lock_file(stream):
        stream.close()
        raise UsageError(f"another process is making {out}; give every shard an --out of its own")
    return stream
