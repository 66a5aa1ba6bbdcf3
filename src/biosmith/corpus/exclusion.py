"""What `corpus build --exclude` keeps out: documents that are, or repeat, those of given files (benchmarks, mostly).

A document is excluded if it has the PMID or PMC id of one of theirs, abstract or full text, or if a run of 13 words of
its text stands in one of theirs (the length that Brown et al., 2020, GPT-3, appendix C, clean by). A number of five to
eight digits that is all of the id of one of theirs is a PMID, as in PubTator and BioC files. Runs, not similarity: benchmark files often
hold single sentences, and a full text that quotes one of an abstract's sentences is not similar to it. Words are those
of `signatures`, so that tokenised text is found too.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from biosmith.artefact import write_by_rename
from biosmith.corpus.cleaning import clean_text
from biosmith.corpus.signatures import run_hashes
from biosmith.errors import BadInput
from biosmith.progress import say
from biosmith.rejects import Rejects
from biosmith.text.document import Document
from biosmith.text.formats import find_files, read_file

RUN_WORDS = 13
FILE = "exclusion.npz"
_BATCH_CHARACTERS = 1 << 20
_NAME = re.compile(r"(?:(PMID|PMC):?)?(\d+)", re.ASCII | re.IGNORECASE)
_BARE_PMID_DIGITS = range(5, 9)  # sentences of benchmark files are numbered from 0, which means nothing


@dataclass(frozen=True)
class Exclusion:
    """What is kept out: sorted hashes of names (`names_of`) and of runs of words, both uint64."""

    names: NDArray[np.uint64]
    runs: NDArray[np.uint64]

    @property
    def digest(self) -> str:
        """Equal for equal contents."""
        return f"xxh3:{xxhash.xxh3_128_hexdigest(self.names.tobytes() + b'|' + self.runs.tobytes())}"

    def has_name(self, document: Document) -> bool:
        """Whether the document has a name that is kept out."""
        return bool(_among(np.array([*names_of(document)], np.uint64), self.names).any())

    def of_texts(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Which texts share a run of words with the excluded ones; bool [len(texts)]."""
        found = np.zeros(len(texts), bool)
        hashes, owners = run_hashes(texts, RUN_WORDS)
        found[owners[_among(hashes, self.runs)]] = True
        return found

    def save(self, folder: Path) -> None:
        """Write for the workers, by rename."""
        with write_by_rename(folder / FILE) as temporary, temporary.open("wb") as stream:
            np.savez(stream, names=self.names, runs=self.runs)


def read_exclusion(sources: Sequence[str | os.PathLike[str]]) -> Exclusion:
    """Read the files whose documents are to be kept out, in any format that `biosmith.read` knows.

    Files and records that cannot be read (readme files, say) keep nothing out; they are counted and named on stderr.

    Raises:
        UsageError: a source does not exist.
        BadInput: nothing in the sources can be read.
    """
    from biosmith.corpus.intake import TextRejects

    names: set[int] = set()
    runs: list[NDArray[np.uint64]] = []
    documents, size = 0, 0
    batch: list[str] = []
    rejects = TextRejects()
    for path in find_files(list(sources)):
        try:
            for document in read_file(path, rejects=rejects):
                documents += 1
                names |= names_of(document, bare=True)
                batch.append(clean_text(document.text))  # as those of the corpus are
                size += len(document.text)
                if size > _BATCH_CHARACTERS:
                    runs.append(np.unique(run_hashes(batch, RUN_WORDS)[0]))
                    batch, size = [], 0
        except BadInput as error:
            rejects.add(error.file, error.record or "file", error.reason, error.value)
    if not documents:
        raise BadInput(", ".join(map(str, sources)), "--exclude: holds no document that can be read")
    _tell(rejects)
    runs.append(run_hashes(batch, RUN_WORDS)[0])
    return Exclusion(
        np.array(sorted(names), np.uint64), np.unique(np.concatenate([np.empty(0, np.uint64), *runs]))
    )


def _tell(rejects: Rejects) -> None:
    """Say what keeps nothing out: whoever excludes a benchmark must know which of its texts are not excluded."""
    if not rejects.count:
        return
    first = {r["reason"]: f"{Path(r['file']).name}, {r['record']}" for r in reversed(rejects.items)}
    counted = rejects.reasons.most_common()
    shown = "; ".join(f"{reason[:80]}: {n:,} (first {first.get(reason, '')})" for reason, n in counted)
    say(f"--exclude: {rejects.count:,} files or records could not be read and keep nothing out: {shown}")


def load_exclusion(folder: Path) -> Exclusion | None:
    """What a build keeps out, as `Exclusion.save` wrote it; None if it keeps nothing out."""
    path = folder / FILE
    return _load(path, path.stat().st_mtime_ns) if path.is_file() else None


@functools.lru_cache(maxsize=1)
def _load(path: Path, modified: int) -> Exclusion:
    with np.load(path) as arrays:
        return Exclusion(arrays["names"], arrays["runs"])


def _among(values: NDArray[np.uint64], sorted_values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    if not len(sorted_values):
        return np.zeros(len(values), bool)
    places = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    return np.asarray(sorted_values[places] == values)


def names_of(document: Document, *, bare: bool = False) -> set[int]:
    """Hashes of the PMIDs and PMC ids that a document says it has; with `bare` its id may be a PMID and nothing else."""
    infons = document.infons
    said = [("pmid", infons.get("pmid", "")), ("pmc", infons.get("pmcid", "").upper().removeprefix("PMC"))]
    if (named := _NAME.fullmatch(document.id)) is not None and (
        named[1] or (bare and len(named[2]) in _BARE_PMID_DIGITS)
    ):
        said.append(((named[1] or "pmid").lower(), named[2]))
    return {
        xxhash.xxh3_64_intdigest(f"{kind} {number}".encode()) for kind, number in said if number.isdecimal()
    }


def which_excluded(documents: Sequence[Document], exclusion: Exclusion) -> NDArray[np.bool_]:
    """Which documents are kept out, by name or by text; bool [n]."""
    found = exclusion.of_texts([document.text for document in documents])
    return found | np.array([exclusion.has_name(document) for document in documents], bool)
