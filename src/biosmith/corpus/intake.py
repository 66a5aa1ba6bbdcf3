"""The first stage: a unit of source files is read, cleaned, filtered and signed, and written as intermediate files.

Of unit N there are then
- `unit-N.parquet`: the documents that passed the filters, in order;
- `unit-N.records.npy`: one `RECORD` for every document and every deletion that was read, in order;
- `unit-N.signatures.npy`: uint64 [BANDS, documents], a column for each document of the Parquet file;
- `unit-N.rejects.jsonl`: what was set aside, if anything was;
- `unit-N.json`: counts and digests of the inputs; written last, so that it says that the unit is done.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from biosmith.artefact import digest_file, write_by_rename, write_json
from biosmith.corpus.cleaning import clean
from biosmith.corpus.exclusion import Exclusion, load_exclusion, which_excluded
from biosmith.corpus.language import is_language, known_language
from biosmith.corpus.options import BuildOptions
from biosmith.corpus.signatures import BANDS, sign
from biosmith.corpus.units import Unit
from biosmith.errors import BiosmithError
from biosmith.rejects import Rejects
from biosmith.text.document import Document
from biosmith.text.formats import read_file
from biosmith.text.formats.mentions import DIFFERS, OUTSIDE
from biosmith.text.formats.offsets import MISPLACED, UNCOUNTED
from biosmith.text.formats.parquet import ParquetWriter

RECORD = np.dtype(
    [
        ("key", np.uint64),  # hash of the name under which versions replace each other; 0: has no versions
        ("rank", np.int64),  # version and date of revision; the highest wins
        ("content", np.uint64),  # hash of the words
        ("row", np.int32),  # row in the unit's Parquet file, or FILTERED or DELETION
        ("words", np.uint32),
        ("characters", np.uint32),
        ("passages", np.uint32),
    ]
)
FILTERED, DELETION = -1, -2
DATE = 10**8  # rank = version * DATE + year, month and day as one number

_OF_ANNOTATIONS = frozenset({DIFFERS, OUTSIDE, MISPLACED, UNCOUNTED})
_BATCH_DOCUMENTS = 512
_BATCH_CHARACTERS = 1 << 20
_NAMED = re.compile(r"(PMID|PMC):?(\d+)", re.IGNORECASE)


class TextRejects(Rejects):
    """Sets aside what concerns the text; annotations that are not where they say are no matter of a corpus."""

    def add(self, file: object, record: object, reason: str, value: object = None) -> None:
        """As `Rejects.add`."""
        if reason not in _OF_ANNOTATIONS:
            super().add(file, record, reason, value)


@dataclass
class _Intake:
    """What has been read of a unit so far."""

    options: BuildOptions
    exclusion: Exclusion | None = None
    filtered: Counter[str] = field(default_factory=Counter)
    boilerplate: Counter[str] = field(default_factory=Counter)
    records: list[NDArray[np.void]] = field(default_factory=list)
    signatures: list[NDArray[np.uint64]] = field(default_factory=list)
    rows: int = 0


def read_unit(unit: Unit, folder: Path, options: BuildOptions, advance: Callable[[int], None]) -> None:
    """Read the source files of a unit and write its intermediate files into a folder.

    Args:
        unit: the files.
        folder: where the intermediate files go.
        options: filters.
        advance: is told the number of documents read since the last call.

    Raises:
        BadInput: a record cannot be used and the options are strict.
        BiosmithError: a source file has changed since the build was planned.
    """
    intake = _Intake(options, load_exclusion(folder))
    stem = folder / unit.stem
    with write_by_rename(stem.with_suffix(".rejects.jsonl")) as rejected:
        rejected.touch()
        with (
            TextRejects(rejected, strict=options.strict, keep=1) as rejects,
            ParquetWriter(stem.with_suffix(".parquet"), compression="lz4") as writer,
        ):
            for batch in _batches(_documents(unit, rejects)):
                _take(batch, intake, writer)
                advance(len(batch))
    records = np.concatenate([np.empty(0, RECORD), *intake.records])
    signatures = np.concatenate([np.empty((BANDS, 0), np.uint64), *intake.signatures], axis=1)
    save_array(stem.with_suffix(".records.npy"), records)
    save_array(stem.with_suffix(".signatures.npy"), signatures)
    summary = {
        "read": int((records["row"] != DELETION).sum()),
        "documents": intake.rows,
        "filtered": intake.filtered,
        "boilerplate": intake.boilerplate,
        "set_aside": rejects.reasons,
        "inputs": [_describe(source.path, source.bytes) for source in unit.sources],
    }
    write_json(stem.with_suffix(".json"), summary)


def load_summary(folder: Path, unit: Unit) -> Mapping[str, Any] | None:
    """What `read_unit` wrote last, None if the unit is not done."""
    path = folder / f"{unit.stem}.json"
    if not path.is_file():
        return None
    summary: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return summary


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as .npy, by rename."""
    data = io.BytesIO()  # numpy writes to files itself in a way that hides that a disk is full
    np.save(data, array)
    with write_by_rename(path) as temporary:
        temporary.write_bytes(data.getbuffer())


def identity(document: Document) -> tuple[str | None, int]:
    """The name under which versions of a document replace each other, and the rank of this one among them.

    Citations of MEDLINE go by PMID, articles of PMC by their id (that of the article and the number of the part);
    others only if their id says PMID or PMC, for equal ids in other files need not mean equal documents. Full texts do not replace abstracts or the reverse. The
    rank is the version, then the date of revision; a document without either comes before all that have one.
    """
    infons = document.infons
    whole = any(p.kind not in ("title", "abstract", "other_abstract") for p in document.passages)
    kind = "article" if whole else "citation"
    rank = _number(infons.get("version", "")) * DATE + _number(
        infons.get("date_revised", "").replace("-", "")
    )
    if "pmid" in infons and "version" in infons:
        return f"pmid {infons['pmid']} {kind}", rank
    if infons.get("pmcid"):
        return f"pmc {document.id.upper().removeprefix('PMC')} {kind}", rank
    named = _NAMED.fullmatch(document.id)
    if named is not None:
        return f"{named[1].lower()} {named[2]} {kind}", rank
    return None, rank


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 8 else 0


def _documents(unit: Unit, rejects: Rejects) -> Iterator[Document]:
    for source in unit.sources:
        path = Path(source.path)
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) != (source.bytes, source.modified):
            raise BiosmithError(f"{path} has changed since the build began; start again with another --out")
        yield from read_file(path, rejects=rejects, deletions=True)


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.text)
        if len(batch) >= _BATCH_DOCUMENTS or size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _take(batch: list[Document], intake: _Intake, writer: ParquetWriter) -> None:
    """Clean, filter, sign and write a batch; every document of it gets its record."""
    records = np.zeros(len(batch), RECORD)
    kept: list[tuple[int, str]] = []
    cleaned: list[tuple[int, Document]] = []
    for i, document in enumerate(batch):
        record = records[i]
        if document.infons.get("deleted") == "true" and not document.text:  # as "medline" reads deletions
            record["key"], record["row"] = name_hash(f"pmid {document.infons.get('pmid')} citation"), DELETION
            continue
        document = clean(document, intake.boilerplate)
        name, record["rank"] = identity(document)
        record["key"] = name_hash(name)
        cleaned.append((i, document))
    unwanted = _which_unwanted([document for _, document in cleaned], intake.exclusion)
    for (i, document), is_excluded in zip(cleaned, unwanted, strict=True):
        record = records[i]
        record["passages"] = len(document.passages)
        record["words"], beyond_titles = count_words(document)
        record["characters"] = len(document.text)
        reason = "excluded" if is_excluded else _why_filtered(document, beyond_titles, intake.options)
        if reason is not None:
            record["row"] = FILTERED
            intake.filtered[reason] += 1
            continue
        record["row"] = intake.rows
        intake.rows += 1
        writer.write(document)
        kept.append((i, document.text))
    if kept and intake.options.deduplicate:
        signed = sign([text for _, text in kept])
        records["content"][[i for i, _ in kept]] = signed.content
        intake.signatures.append(signed.bands)
    intake.records.append(records)


def _which_unwanted(documents: list[Document], exclusion: Exclusion | None) -> list[bool]:
    return [False] * len(documents) if exclusion is None else which_excluded(documents, exclusion).tolist()


def count_words(document: Document) -> tuple[int, int]:
    """Words of a cleaned document, and those outside its titles. A word is what stands between white space."""
    words = titles = 0
    for passage in document.passages:
        count = passage.text.count(" ") + passage.text.count("\n") + 1
        words += count
        titles += count if passage.kind == "title" else 0
    return words, words - titles


def _why_filtered(document: Document, words: int, options: BuildOptions) -> str | None:
    if not document.passages:
        return "empty"
    if words < options.min_words:
        return "short"
    if options.language is not None and not is_language(document, known_language(options.language)):
        return "language"
    return None


def name_hash(name: str | None) -> int:
    """The key of a document's name (`identity`); 0 for none."""
    return 0 if name is None else xxhash.xxh3_64_intdigest(name.encode()) or 1


def _describe(path: str, size: int) -> dict[str, Any]:
    described = {"path": path, "kind": "file", "bytes": size}
    try:
        return described | {"digest": digest_file(Path(path))}
    except OSError:  # a file that could not be read was set aside
        return described
