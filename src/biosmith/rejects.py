"""Input that was set aside: written down with its reason and counted, never dropped in silence."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import IO

from biosmith.errors import BadInput, shorten
from biosmith.surrogates import replace_surrogates

REJECTS = "rejects.jsonl"  # of an artefact: what was set aside while it was made


class Rejects:
    """Collects records that could not be used.

    Args:
        path: JSON-lines file that receives one object a record (`file`, `record`, `reason`, `value`);
            made only when there is something to write. None keeps the records in `items`.
        strict: raise `BadInput` at the first record instead of setting it aside.
        keep: how many records `items` holds at most, so that memory stays flat.
    """

    def __init__(self, path: Path | None = None, *, strict: bool = False, keep: int = 1000) -> None:
        self.path, self.strict, self.keep = path, strict, keep
        self.items: list[dict[str, str]] = []
        self.reasons: Counter[str] = Counter()
        self._stream: IO[str] | None = None

    @property
    def count(self) -> int:
        """Number of records set aside."""
        return sum(self.reasons.values())

    def add(self, file: object, record: object, reason: str, value: object = None) -> None:
        """Set one record aside. Raises `BadInput` when strict."""
        if self.strict:
            raise BadInput(file, reason, record=record, value=value)
        self.reasons[reason] += 1
        item = {"file": str(file), "record": str(record), "reason": reason}
        if value is not None:
            item["value"] = value if isinstance(value, str) and len(value) < 500 else shorten(value, 500)
        if len(self.items) < self.keep:
            self.items.append(item)
        if self.path is not None:
            if self._stream is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._stream = self.path.open("a", encoding="utf-8")
            self._stream.write(replace_surrogates(json.dumps(item, ensure_ascii=False)) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the file, if one was opened."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __enter__(self) -> Rejects:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
