"""How vocabularies cut biomedical words, side by side.

How things are counted:

- A **word** of running text is what stands between white space. `fragmentation` is pieces a word, marks included.
- `unknown_rate` is the share of words of which something is unknown.
- A **term** is whole if it is one known piece (Gu et al., 2021, Table 1).
- The words of a **mention** are BERT's (marks are words of their own). A mention is whole if it has no more pieces than
  words; `pieces_a_word` is the rate at which entities break into pieces (Shin et al., 2020, Table 4).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from biosmith.artefact import MANIFEST, load_manifest
from biosmith.errors import BadInput, UsageError
from biosmith.progress import progress
from biosmith.rejects import Rejects
from biosmith.text.document import Document
from biosmith.text.formats import find_files, read, read_file
from biosmith.tokens.encoding import needs_space_before
from biosmith.tokens.schemes import Scheme
from biosmith.tokens.vocabulary import Vocabulary

# Gu et al. (2021), Table 1.
TERMS = (
    "diabetes",
    "leukemia",
    "lithium",
    "insulin",
    "DNA",
    "promoter",
    "hypertension",
    "nephropathy",
    "lymphoma",
    "lidocaine",
    "oropharyngeal",
    "cardiomyocyte",
    "chloramphenicol",
    "RecA",
    "acetyltransferase",
    "clonidine",
    "naloxone",
)

UNKNOWN = frozenset(("[UNK]", "<unk>"))
WORDS_AT_ONCE = 10_000
_STOP = re.compile(r"[.?!\n]")
LEAST_REPEATED = 20  # characters between two full stops, white space left out, that are known again elsewhere
SHARE_REPEATED = 0.9  # of the characters of a document, by which it is a repeated one


@dataclass(frozen=True)
class Sample:
    """Words and mentions of one path of text, counted once for all vocabularies; `repeated` documents were left out."""

    name: str
    documents: int
    words: Mapping[str, int]
    mentions: Mapping[str, int]
    repeated: int = 0


@dataclass(frozen=True)
class MentionCut:
    """How the mentions of one dataset are cut."""

    mentions: int
    whole: float  # share
    pieces_a_mention: float
    pieces_a_word: float


@dataclass(frozen=True)
class VocabularyCut:
    """How one vocabulary cuts the samples and the terms; what a rate is measured on is in the module's docstring."""

    vocab: str
    kind: str
    size: int
    cased: bool
    digest: str
    fragmentation: float | None  # None without text
    unknown_rate: float | None
    words: int
    terms: dict[str, list[str]]
    whole_terms: int
    mentions: dict[str, MentionCut] = field(default_factory=dict)
    repeated: int = 0  # documents that were left out because their text had been counted

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_samples(
    paths: Sequence[Path],
    *,
    limit: int,
    rejects: Rejects | None = None,
    choose: Callable[[Path], Sequence[Path]] = lambda path: [path],
) -> list[Sample]:
    """Count the words and mentions of the first `limit` documents of each path (any that `biosmith.read` reads).

    `choose` says which files of a path are read, where a folder holds more than its data. A document that comes again
    with the same id and text (the other form of a benchmark, the other half of BC5CDR) counts once, and so do its
    mentions. So does a text that stood in another folder of the path, in whatever form (see `_Repeats`).

    Raises:
        UsageError: the limit is no number of documents.
        BadInput: a path has no words.
    """
    if limit < 1:
        raise UsageError(f"--limit is {limit}; it must be 1 or more")
    samples = []
    for path, name in zip(paths, short_names(paths), strict=True):
        words: Counter[str] = Counter()
        mentions: Counter[str] = Counter()
        spans: dict[int, set[tuple[int, int]]] = {}  # of the mentions of each document
        repeats, repeated = _Repeats(), 0
        with progress(f"Reading {name}") as advance:
            for folder, document in islice(_documents(path, choose, rejects), limit):
                key = hash((document.id, document.text))
                repeated += (is_known := key in spans)
                if not is_known:
                    if folder is not None and repeats.has(document.text, folder):
                        repeated += 1
                        advance(1)
                        continue
                    words.update(document.text.split())
                known = spans.setdefault(key, set())
                mentions.update(m.text for m in document.mentions if (m.start, m.end) not in known)
                known.update((m.start, m.end) for m in document.mentions)
                advance(1)
        if not words:
            raise BadInput(path, "has no words to measure on")
        samples.append(Sample(name, len(spans), words, mentions, repeated))
    return samples


def read_terms(path: Path) -> tuple[str, ...]:
    """Terms from a file, one a line; empty lines and those that begin with # are left out.

    Raises:
        UsageError: there is no such file.
        BadInput: the file has none or is not UTF-8.
    """
    if not path.is_file():
        raise UsageError(f"{path} is not a file; expected terms, one a line")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise BadInput(path, f"is not text in UTF-8: {error}") from error
    terms = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not terms:
        raise BadInput(path, "has no terms; expected one a line")
    return tuple(dict.fromkeys(terms))


def measure(
    vocabulary: Vocabulary, samples: Sequence[Sample] = (), terms: Sequence[str] = TERMS
) -> VocabularyCut:
    """Measure one vocabulary."""
    words: Counter[str] = Counter()
    for sample in samples:
        words.update(sample.words)
    unknown = UNKNOWN.intersection(vocabulary.pieces)
    total, pieces, not_known = words.total(), 0, 0
    for word, cut in _cut(vocabulary, words):
        pieces += words[word] * len(cut)
        not_known += words[word] * (not unknown.isdisjoint(cut))
    shown = dict(_cut(vocabulary, terms))
    return VocabularyCut(
        vocab=vocabulary.name,
        kind=vocabulary.mark.kind,
        size=vocabulary.mark.size,
        cased=vocabulary.mark.cased,
        digest=vocabulary.mark.digest,
        fragmentation=pieces / total if total else None,
        unknown_rate=not_known / total if total else None,
        words=total,
        terms=shown,
        whole_terms=sum(len(cut) == 1 and unknown.isdisjoint(cut) for cut in shown.values()),
        mentions={s.name: _measure_mentions(vocabulary, s.mentions) for s in samples if s.mentions},
        repeated=sum(sample.repeated for sample in samples),
    )


def _measure_mentions(vocabulary: Vocabulary, mentions: Mapping[str, int]) -> MentionCut:
    words_of = Scheme("wordpiece", cased=True, strip_accents=False).word_cutter()
    total = sum(mentions.values())
    pieces = words = whole = 0
    for mention, cut in _cut(vocabulary, mentions):
        count, long = mentions[mention], sum(len(words_of(chunk)) for chunk in mention.split())
        pieces += count * len(cut)
        words += count * long
        whole += count * (len(cut) <= long and UNKNOWN.isdisjoint(cut))
    return MentionCut(total, whole / total, pieces / total, pieces / max(1, words))


def _cut(vocabulary: Vocabulary, texts: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Each text with its pieces, cut as it would be inside a sentence."""
    before = " " if needs_space_before(vocabulary.tokenizer) else ""
    texts = iter(texts)
    while some := list(islice(texts, WORDS_AT_ONCE)):
        encodings = vocabulary.tokenizer.encode_batch(
            [before + text for text in some], add_special_tokens=False
        )
        for text, encoding in zip(some, encodings, strict=True):
            yield text, encoding.tokens


class _Repeats:
    """Which texts stood in another folder before: a dataset as documents and as tagged sentences is one text.

    Such forms differ in white space and in where they end sentences ("i.p. to rats"), so what stands between two full
    stops, of whatever kind, is compared, without white space. Short pieces are left out of it, for they stand in any two
    datasets; within a folder, whatever comes again does so in the text itself.
    """

    def __init__(self) -> None:
        self._first: dict[int, Path] = {}  # hash of a piece -> the folder that has it first

    def has(self, text: str, folder: Path) -> bool:
        """Whether nearly all of a text stood in other folders; it is remembered."""
        total = known = 0
        for piece in _STOP.split(text):
            size, is_known = self._look(piece, folder)
            total, known = total + size, known + size * is_known
        # The whole too, which may be of short pieces only.
        _, is_whole = self._look(text, folder)
        return is_whole or (total > 0 and known >= SHARE_REPEATED * total)

    def _look(self, text: str, folder: Path) -> tuple[int, bool]:
        """How long a text is, and whether another folder has it; 0 if it is too short to tell."""
        squeezed = "".join(text.split())
        if len(squeezed) < LEAST_REPEATED:
            return 0, False
        return len(squeezed), self._first.setdefault(hash(squeezed), folder) != folder


def _documents(
    path: Path, choose: Callable[[Path], Sequence[Path]], rejects: Rejects | None
) -> Iterator[tuple[Path | None, Document]]:
    """Documents with the folder of their file, None where all lie in one."""
    if (path / MANIFEST).is_file():
        manifest = load_manifest(path)
        names = sorted(name for name in manifest.files if name.endswith(".parquet"))
        chosen: Sequence[Path] = [path / name for name in names]
    else:
        chosen = choose(path)
    files = find_files(chosen)
    if len({file.parent for file in files}) < 2:
        yield from ((None, document) for document in read(chosen, rejects=rejects))
        return
    collected = Rejects() if rejects is None else rejects
    for file in files:
        yield from ((file.parent, document) for document in read_file(file, rejects=collected))


def short_names(paths: Sequence[Path]) -> list[str]:
    """The last part of each path without its suffixes, and the folder too where that is not enough."""
    short = [path.name.split(".")[0] or path.name for path in paths]
    again = [f"{path.parent.name}/{name}" for path, name in zip(paths, short, strict=True)]
    full = [str(path) for path in paths]
    for names in (short, again):
        if len(set(names)) == len(names):
            return names
    return full
