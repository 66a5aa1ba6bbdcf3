"""A corpus folder as parts that workers read one by one.

A part is one row group of one Parquet shard. What a command makes of a corpus depends on the parts and their order
alone, never on the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from biosmith.artefact import load_manifest
from biosmith.errors import BadInput
from biosmith.text.formats.parquet import count_by_row_group, iterate_texts

DOCUMENTS_AT_ONCE = 256  # full texts of 40,000 characters: some 10 MB
TASKS_OF_A_WORKER = 200  # workers are replaced after this many tasks, so that no leak of a library adds up


@dataclass(frozen=True, slots=True)
class Part:
    """One row group of a Parquet shard."""

    path: Path
    row_group: int
    documents: int


def list_parts(corpus: Path) -> list[Part]:
    """The parts of a corpus in order.

    Raises:
        UsageError: the folder is not a corpus.
        BadInput: a shard is missing, cannot be read, or the corpus has no documents.
    """
    manifest = load_manifest(corpus, "corpus")
    names = sorted(name for name in manifest.files if name.endswith(".parquet"))
    for name in names:
        if not (corpus / name).is_file():
            raise BadInput(corpus / name, "is missing; build the corpus again, or copy it again")
    parts = [
        Part(corpus / name, number, documents)
        for name in names
        for number, documents in enumerate(count_by_row_group(corpus / name))
        if documents
    ]
    if not parts:
        raise BadInput(corpus, "has no documents")
    return parts


def read_part(part: Part) -> Iterator[list[list[str]]]:
    """The passages' texts of each document of a part, some documents at a time."""
    for documents in iterate_texts(part.path, DOCUMENTS_AT_ONCE, [part.row_group]):
        yield [[text for text in passages if text] for passages in documents]
