"""Tagged sentences: from CoNLL files under the names their authors gave them, or from documents with mentions.

A CoNLL file has one word a line, its tag in the last column, columns separated by tabs (or white space where a line
has no tab), blank lines between sentences and `-DOCSTART-` lines between documents (in GENIA's files `###MEDLINE:PMID`).
Lines before a sentence that begin with `# ` are comments. Quotes are words like any other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.tasks.labels import Span, split_tag, write_tags
from biosmith.tasks.listed import find_listed, is_list, read_documents
from biosmith.tasks.words import split_words
from biosmith.text import files, formats, sentences
from biosmith.text.document import Document

log = logging.getLogger("biosmith")

SPLITS: dict[str, tuple[str, ...]] = {
    "train": ("train",),
    "dev": ("devel", "dev", "valid", "validation", "development"),
    "test": ("test", "evaluation"),
}
CONLL_SUFFIXES = (".tsv", ".conll", ".bio", ".iob", ".iob2", ".iobes", ".txt")
DOCUMENT_START = "-DOCSTART-"
DOCUMENT_STARTS = (DOCUMENT_START, "###MEDLINE:")
VALID_TAGS = "O, B-Type, I-Type, E-Type, S-Type, B, I"


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence and a tag for each.

    Attributes:
        file, line: where the sentence begins (a line number, or the id of its document).
        offsets: where each word lies in its document; None in files that only have words.
        document: position of the document in its file; sentences of CoNLL files without `-DOCSTART-` share one.
        unmarked: types of mentions that nobody looked for here, so that O says nothing of them (see `joining`).
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    file: str
    line: int | str
    offsets: tuple[tuple[int, int], ...] | None = None
    document: int = 0
    unmarked: tuple[str, ...] = field(default=(), kw_only=True)

    def place(self, word: int) -> str:
        """How a message names a word of this sentence."""
        return f"line {self.line + word}" if isinstance(self.line, int) else f"document {self.line}"


@dataclass(frozen=True)
class TaggedData:
    """One split.

    Attributes:
        sentences: in file order.
        files: what they were read from.
        gold: for documents, the gold spans in characters, document by document, nested and discontinuous ones too
            (those last as their hull under a type that no prediction has); None for CoNLL files, whose tags are the gold.
        untaggable: mentions that tags on words cannot express (nested, discontinuous, ending inside a word).
        set_aside: records that could not be read.
    """

    sentences: list[TaggedSentence]
    files: list[Path]
    gold: list[list[Span]] | None = None
    untaggable: int = 0
    set_aside: int = 0


def find_splits(folder: Path) -> dict[str, list[Path]]:
    """The files of each split in a dataset's folder: CoNLL files by their names, else document files by theirs.

    Where lists of ids name the documents of each split, the list is the first of its files (see `listed`). A split may
    be a folder of documents too, as brat's corpora are released.
    A split named twice (PubTator and BioC of the same documents) is taken from the kind of file that has most splits.

    Raises:
        UsageError: the folder does not exist, or no file in it is named after a split.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} does not exist" if not folder.exists() else f"{folder} is not a folder")
    names = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    for suffix in CONLL_SUFFIXES:
        exact = {split: [p for p in names if _is_named(p, stems, suffix)] for split, stems in SPLITS.items()}
        if any(exact.values()):
            return {split: paths[:1] for split, paths in exact.items() if paths}
    if listed := find_listed(folder):
        return listed
    if inside := _find_folders(folder):
        return inside
    kinds: dict[str, dict[str, list[Path]]] = {}
    for path in names:
        bare = files.strip_compression(path.name)
        stem, _, kind = bare.partition(".")
        for split, stems in SPLITS.items():
            if any(word in stem for word in stems):
                kinds.setdefault(kind, {}).setdefault(split, []).append(path)
                break
    if not kinds:
        raise UsageError(
            f"{folder} holds no file named after a split; expected train.tsv, devel.tsv or dev.tsv and test.tsv "
            "(plain, .gz or .xz), or document files with train, dev and test in their names"
        )
    return max(kinds.values(), key=lambda splits: ("train" in splits, len(splits)))


def _find_folders(folder: Path) -> dict[str, list[Path]]:
    """The documents of the folders that are named after splits; empty without one for training."""
    names = {"train": ("training", *SPLITS["train"]), "dev": SPLITS["dev"], "test": SPLITS["test"]}
    inside = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    found = {s: next((p for p in inside if p.name.lower() in words), None) for s, words in names.items()}
    if found["train"] is None:
        return {}
    documents = {split: formats.find_files(path) for split, path in found.items() if path is not None}
    return {split: paths for split, paths in documents.items() if paths}


def _is_named(path: Path, stems: Sequence[str], suffix: str) -> bool:
    bare = files.strip_compression(path.name)
    return any(bare == stem + suffix for stem in stems)


def load_split(data: Path, split: str) -> TaggedData:
    """Read one split of a dataset's folder; a path to a file is that split.

    Raises:
        UsageError: there is no such split; the message names those there are.
        BadInput: a line of a CoNLL file has no tag, or a tag that is none; the split has no sentence.
    """
    if data.is_file():
        return read_tagged([data])
    splits = find_splits(data)
    if split not in splits:
        raise UsageError(f"{data} has no {split} split; it has: {', '.join(splits)}")
    return read_tagged(splits[split])


def read_tagged(paths: Sequence[Path]) -> TaggedData:
    """Sentences of CoNLL or document files; which they are is seen from their first lines."""
    if not is_list(paths[0]) and all(looks_like_conll(path) for path in paths):
        data = TaggedData([s for path in paths for s in read_conll(path)], list(paths))
    else:
        with Rejects() as rejects:
            data = tag_documents(read_documents(paths, rejects), list(paths))
            data = TaggedData(data.sentences, data.files, data.gold, data.untaggable, rejects.count)
            if rejects.items:
                bad = rejects.items[0]
                left = "" if data.sentences else "; no sentence is left"
                first = BadInput(
                    bad["file"], bad["reason"] + left, record=bad["record"], value=bad.get("value")
                )
                if not data.sentences:
                    raise first
                log.warning("%d records were set aside; the first: %s", rejects.count, first)
    if not data.sentences:
        raise BadInput(", ".join(map(str, paths)), "holds no sentence")
    return data


def looks_like_conll(path: Path) -> bool:
    """Whether the first line that is not blank has a word and, in its last column, something like a tag."""
    for _, line in _lines(path):
        if line.startswith(DOCUMENT_STARTS) or not line.strip() or _is_comment(line):
            continue
        columns = _columns(line)
        if len(columns) == 1:
            # A word without its tag, or prose? Prose has blanks in it.
            return files.strip_compression(path.name).endswith(CONLL_SUFFIXES[:-1])
        try:
            split_tag(columns[-1])
        except ValueError:
            return files.strip_compression(path.name).endswith(CONLL_SUFFIXES[:-1]) and len(columns) == 2
        return True
    return files.strip_compression(path.name).endswith(CONLL_SUFFIXES[:-1])


def read_conll(path: Path, rejects: Rejects | None = None) -> Iterator[TaggedSentence]:
    """The sentences of a CoNLL file.

    Args:
        path: plain, .gz or .xz.
        rejects: collects every bad line; its sentence is left out. None raises at the first.

    Raises:
        BadInput: a line has no tag, or a tag that is none, or another number of columns than the first line; names
            file and line. The file is damaged or not UTF-8.
    """
    words: list[str] = []
    tags: list[str] = []
    valid: set[str] = set()  # tags that were looked at
    begin, document, columns, broken = 1, 0, 0, False
    collected = Rejects(strict=True) if rejects is None else rejects

    def sentence() -> Iterator[TaggedSentence]:
        nonlocal broken
        if words and not broken:
            yield TaggedSentence(tuple(words), tuple(tags), str(path), begin, document=document)
        words.clear()
        tags.clear()
        broken = False

    for number, line in _lines(path):
        if line.startswith(DOCUMENT_STARTS):
            yield from sentence()
            document += 1
        elif not line.strip():
            yield from sentence()
        elif not words and _is_comment(line):
            continue
        else:
            cells = _columns(line)
            if not columns and len(cells) > 1:
                columns = len(cells)
            if len(cells) != columns or cells[-1] not in valid or not cells[0].strip():
                if (wrong := _wrong(line, cells, columns)) is None:
                    valid.add(cells[-1])
                else:
                    collected.add(path, f"line {number}", *wrong)
                    broken = True
            if not words:
                begin = number
            words.append(cells[0])
            tags.append(cells[-1])
    yield from sentence()


def _wrong(line: str, cells: Sequence[str], columns: int) -> tuple[str, str] | None:
    """What is wrong with a line, and the value; None for a good one. `columns` is how many the first line has."""
    if len(cells) < 2 or not cells[0].strip():
        return "a word and a tag are expected", line
    if "\r" in line:
        return "holds a carriage return; lines have to end with a line feed", line
    if len(cells) != columns:
        return f"has {len(cells)} columns where the first line has {columns}", line
    try:
        split_tag(cells[-1])
    except ValueError:
        return f"the last column is not a tag; valid: {VALID_TAGS}", cells[-1]
    return None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines. Only line feeds end them: words may hold any other separator of Unicode."""
    with files.open_decompressed(path) as stream:
        number = 0
        try:
            for number, raw in enumerate(stream, start=1):
                yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise BadInput(path, f"is not UTF-8: {error.reason}", record=f"line {number}") from error
        except files.BROKEN as error:
            raise BadInput(
                path, f"is damaged: {str(error).rstrip('.')}", record=f"after line {number}"
            ) from error


def _columns(line: str) -> list[str]:
    """The columns; white space at the end of a line is none, and a no-break space is part of a word."""
    if "\t" in line:
        return line.rstrip(" \t").split("\t")
    return [cell for cell in line.split(" ") if cell]


def _is_comment(line: str) -> bool:
    """Whether a line that stands before a sentence is none of its words (a word `#` has a tag)."""
    if not line.startswith("# ") or "\t" in line:
        return False
    try:
        split_tag(line.split()[-1])
    except ValueError:
        return True
    return False


def tag_documents(documents: Iterable[Document], paths: list[Path]) -> TaggedData:
    """Cut documents into sentences and words and write their mentions as tags.

    A mention that ends inside a word takes the whole word; of nested and overlapping mentions the longest is kept, of
    a discontinuous one nothing. `gold` keeps all of them, so that a score counts what tags cannot say as missed.
    """
    tagged: list[TaggedSentence] = []
    gold: list[list[Span]] = []
    untaggable = 0
    for number, document in enumerate(documents):
        spans = [
            Span(m.start, m.end, m.type if len(m.fragments) == 1 else f"{m.type} (discontinuous)")
            for m in document.mentions
        ]
        gold.append(spans)
        whole = [Span(m.start, m.end, m.type) for m in document.mentions if len(m.fragments) == 1]
        kept = _without_overlaps(whole)
        expressed: set[Span] = set()
        for words in sentence_words(document):
            tags, exact = _tags_of(words, kept)
            expressed |= exact
            if words:
                tagged.append(
                    TaggedSentence(
                        tuple(document.text[a:b] for a, b in words),
                        tuple(tags),
                        str(paths[0]) if len(paths) == 1 else "documents",
                        document.id,
                        tuple(words),
                        number,
                    )
                )
        untaggable += len(spans) - len(expressed)
    return TaggedData(tagged, paths, gold, untaggable)


def sentence_words(document: Document) -> Iterator[list[tuple[int, int]]]:
    """The words of each sentence of a document, in code points of the document; no sentence spans two passages."""
    for passage in document.passages or ():
        for start, end in sentences.split(passage.text):
            yield split_words(document.text, passage.offset + start, passage.offset + end)
    if not document.passages:
        for start, end in sentences.split(document.text):
            yield split_words(document.text, start, end)


def _without_overlaps(spans: list[Span]) -> list[Span]:
    """Spans in order of place, the longer of two that overlap."""
    kept: list[Span] = []
    for span in sorted(set(spans), key=lambda s: (s.start - s.end, s.start, s.type)):
        if span.end > span.start and all(span.end <= k.start or k.end <= span.start for k in kept):
            kept.append(span)
    return sorted(kept)


def _tags_of(words: Sequence[tuple[int, int]], spans: Sequence[Span]) -> tuple[list[str], set[Span]]:
    """Tags of the words that lie under a span, and the spans that they express exactly."""
    found: list[Span] = []
    exact: set[Span] = set()
    at = 0
    for span in spans:
        while at < len(words) and words[at][1] <= span.start:
            at += 1
        end = at
        while end < len(words) and words[end][0] < span.end:
            end += 1
        if end > at:
            found.append(Span(at, end, span.type))
            if words[at][0] == span.start and words[end - 1][1] == span.end:
                exact.add(span)
            at = end
    return write_tags(found, len(words)), exact
