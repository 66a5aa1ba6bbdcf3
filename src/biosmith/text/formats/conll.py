"""CoNLL: a token and its tag a line, a blank line after each sentence, in two columns or more.

Read:
- columns are separated by tabs if the first token line has one, else by spaces; the first is the token, the last the
  tag. Columns between them are the infons `column 2`, ... of the sentence, joined by spaces.
- tags may be BIO, IOB1, IO, IOBES or BIOUL, with a type (`B-Disease`) or without (`B`); a mention that begins with an
  inside tag, or changes its type, is read as the CoNLL-2000 scorer does.
- a file with `-DOCSTART-` lines gives a document a block, named by what stands in brackets (`-DOCSTART- (10070173)`),
  and so does one with GENIA's `###MEDLINE:10070173`; otherwise each sentence is a document. Documents without a name
  are called after the file and their number. A named block without a line is a document without text. Lines before a sentence that begin with `# ` are comments.
- a sentence is a passage of kind "sentence"; its text is its tokens joined by one space, for the format does not say
  what stood between them.
- a sentence with a line of another number of columns, an empty token or an unknown tag is set aside with that line.

Written is BIO in two columns, one `-DOCSTART- (ID)` a document, with sentences from `text/sentences.py` (none cuts a
mention; passages of kind "sentence" stay whole) and tokens that are runs of letters and digits, or single other
characters, cut where mentions begin and end. Cannot hold, and `write` counts in `WriteReport.lost`: discontinuous
mentions (left out), all but the longest of overlapping ones, identifiers, scores, names and infons of mentions,
relations; and of every document its white space, kinds, labels and infons.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from biosmith.rejects import Rejects
from biosmith.text import files, sentences
from biosmith.text.document import Document, Mention, Passage
from biosmith.text.formats.report import WriteReport

NAME = "conll"
SUFFIXES = (".conll", ".iob", ".bio", ".iob2", ".tsv")

_BLOCK = "-DOCSTART-"
_BLOCKS = (_BLOCK, "###MEDLINE:")
_TAG = re.compile(r"O|[BIESLUMW](?:-\S+)?")
_BEGINS, _ENDS = "BSUW", "ESLUW"
_VALID = "O, or B, I, E, S, L, U, alone or with -TYPE"
_TOKEN = re.compile(r"[^\W_]+|[^\w\s]|_")


def looks_like(head: bytes) -> bool:
    """Whether nearly all lines have the same number of columns and end in a tag."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.split("\n")
    if len(head) >= files.HEAD:
        lines.pop()  # cut
    lines = [line.rstrip(" \t\r") for line in lines if not line.startswith(_BLOCKS)]
    rows = [line for line in lines if line and not _is_comment(line)][:400]
    tabs = bool(rows) and "\t" in rows[0]
    if not rows or (not tabs and len(rows) < 5):
        return False
    cells = [_split(row, tabs) for row in rows]
    good = [c for c in cells if len(c) == len(cells[0]) > 1 and _TAG.fullmatch(c[-1])]
    # A table of sentences may have labels that look like tags: B and M, for benign and malignant.
    words = sum(" " not in c[0].strip() for c in cells)
    return len(good) >= 0.8 * len(rows) and words >= 0.5 * len(rows)


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Stream documents; a sentence with a bad line goes to `rejects` with the number of the line."""
    reader = _Reader(rejects, file)
    for number, raw in enumerate(stream, 1):
        try:
            line = raw.rstrip(b" \t\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            reader.leave_out(number, f"is not UTF-8 ({error.reason})", raw.decode("utf-8", "replace").strip())
            continue
        if number == 1:
            line = line.removeprefix("\ufeff")
        if line.startswith(_BLOCKS):
            yield from reader.end_block()
            reader.begin_block(line)
        elif line.strip():
            if reader.rows or not _is_comment(line):
                reader.take(number, line)
        else:
            yield from reader.end_sentence()
    yield from reader.end_block()


class _Reader:
    """The lines of a file, gathered into sentences and documents."""

    def __init__(self, rejects: Rejects, file: str) -> None:
        self.rejects, self.file = rejects, file
        self.stem = files.stem(file)
        self.tabs: bool | None = None
        self.columns = 0
        self.tags = {"O"}  # seen and found valid
        self.rows: list[list[str]] = []
        self.broken = False
        self.block: str | None = None  # name of the document that is open
        self.empty = False  # whether that has a name, and no line yet
        self.sentences: list[tuple[Passage, list[Mention]]] = []
        self.documents = 0

    def take(self, number: int, line: str) -> None:
        if self.tabs is None:
            self.tabs = "\t" in line
            self.columns = max(2, len(_split(line, self.tabs)))
        cells = _split(line, self.tabs)
        reason = value = None
        if len(cells) != self.columns:
            reason, value = f"has {len(cells)} columns where the first line has {self.columns}", line
        elif not cells[0].strip():
            reason, value = "has no token", line
        elif cells[-1] not in self.tags and not _TAG.fullmatch(cells[-1]):
            reason, value = f"has a tag that is none of: {_VALID}", cells[-1]
        else:
            self.tags.add(cells[-1])
        if reason is not None:
            self.leave_out(number, reason, value)
        self.rows.append(cells)
        self.empty = False

    def leave_out(self, number: int, reason: str, value: str | None) -> None:
        """Set the sentence of a line aside, once."""
        self.empty = False
        if not self.broken:
            self.rejects.add(self.file, f"line {number}", f"{reason}; its sentence is left out", value)
            self.broken = True

    def end_sentence(self) -> Iterator[Document]:
        rows, self.rows = self.rows, []
        broken, self.broken = self.broken, False
        if rows and not broken:
            self.sentences.append(_sentence(rows))
        if self.block is None:
            yield from self._document(self.stem)

    def begin_block(self, line: str) -> None:
        name = re.search(r"\((.*)\)", line) or re.match(r"###MEDLINE:(\S+)", line)
        self.block = name[1] if name else ""
        self.empty = bool(self.block)

    def end_block(self) -> Iterator[Document]:
        yield from self.end_sentence()
        if self.empty:
            yield Document(self.block or "", "")
        yield from self._document(self.stem)
        self.block, self.empty = None, False

    def _document(self, stem: str) -> Iterator[Document]:
        if self.sentences:
            self.documents += 1
            yield _join(self.block or f"{stem}-{self.documents}", self.sentences)
            self.sentences = []


def _is_comment(line: str) -> bool:
    """Whether a line that stands before a sentence is none of its tokens (a token `#` has a tag)."""
    return line.startswith("# ") and "\t" not in line and _TAG.fullmatch(line.split()[-1]) is None


def _split(line: str, tabs: bool) -> list[str]:
    """The columns of a line. A no-break space or the like is part of a token, not white space between columns."""
    return line.split("\t") if tabs else [cell for cell in line.replace("\t", " ").split(" ") if cell]


def _sentence(rows: Sequence[Sequence[str]]) -> tuple[Passage, list[Mention]]:
    """The passage, and its mentions with offsets in the passage."""
    tokens = [row[0] for row in rows]
    text = " ".join(tokens)
    starts, position = [], 0
    for token in tokens:
        starts.append(position)
        position += len(token) + 1
    infons = {f"column {n + 1}": " ".join(row[n] for row in rows) for n in range(1, len(rows[0]) - 1)}
    mentions = []
    for first, last, type in read_tags([row[-1] for row in rows]):
        start, end = starts[first], starts[last] + len(tokens[last])
        mentions.append(Mention(start, end, text[start:end], type))
    return Passage("sentence", text, infons=infons), mentions


def read_tags(tags: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Mentions as (first token, last token, type) of tags in any scheme.

    >>> list(read_tags(["B-A", "I-A", "I-B", "O", "S-A", "I", "I"]))
    [(0, 1, 'A'), (2, 2, 'B'), (4, 4, 'A'), (5, 6, '')]
    """
    first: int | None = None
    open_type = ""
    last = -1
    for last, tag in enumerate(tags):
        prefix, _, type = tag.partition("-")
        if first is not None and (prefix == "O" or prefix in _BEGINS or type != open_type):
            yield first, last - 1, open_type
            first = None
        if prefix != "O" and first is None:
            first, open_type = last, type
        if first is not None and prefix in _ENDS:
            yield first, last, open_type
            first = None
    if first is not None:
        yield first, last, open_type


def _join(id: str, sentences: Sequence[tuple[Passage, list[Mention]]]) -> Document:
    document = Document.build(id, [passage for passage, _ in sentences])
    mentions = [
        Mention(m.start + passage.offset, m.end + passage.offset, m.text, m.type)
        for passage, (_, found) in zip(document.passages, sentences, strict=True)
        for m in found
    ]
    return Document(id, document.text, document.passages, tuple(mentions))


def write(documents: Iterable[Document], path: Path) -> WriteReport:
    """Write documents; what is lost is in the report."""
    report = WriteReport()
    with files.create(path) as stream:
        for document in documents:
            mentions = _choose(document, report)
            id = re.sub(r"\s", " ", document.id)
            stream.write(f"{_BLOCK} ({id})\n\n".encode())
            for begin, end in _spans(document, mentions):
                rows = list(_rows(document.text, begin, end, mentions))
                if rows:
                    stream.write(("\n".join(f"{token}\t{tag}" for token, tag in rows) + "\n\n").encode())
            report.documents += 1
            report.mentions += len(mentions)
            report.lost["white space, kinds, labels and infons"] += 1
    return report


def _choose(document: Document, report: WriteReport) -> list[Mention]:
    """Mentions that do not overlap, the longest first, in order of the text."""
    lost = report.lost
    chosen: list[Mention] = []  # in order of the text, none overlaps another
    for mention in sorted(document.mentions, key=lambda m: (m.start - m.end, m.start)):
        place = bisect_left(chosen, mention.end, key=_start)  # those before it begin before the mention ends
        if len(mention.fragments) > 1:
            lost["discontinuous mentions"] += 1
        elif not mention.text.strip():
            lost["mentions of white space"] += 1
        elif place and chosen[place - 1].end > mention.start:
            lost["overlapping mentions"] += 1
        else:
            chosen.insert(place, mention)
            for what in ("ids", "id", "infons"):
                lost[f"{what} of mentions"] += bool(getattr(mention, what))
            lost["scores of mentions"] += mention.score is not None
    lost["relations"] += len(document.relations)
    report.lost = +lost
    return chosen


def _start(mention: Mention) -> int:
    return mention.start


def _spans(document: Document, mentions: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    """Sentences as (start, end) in the document; those that a mention runs through are one."""
    passages = document.passages or (Passage("paragraph", document.text),)
    found = []
    for passage in passages:
        whole = [(0, len(passage.text))] if passage.kind == "sentence" else sentences.split(passage.text)
        found += [(start + passage.offset, end + passage.offset) for start, end in whole]
    pending = list(mentions)
    joined: list[tuple[int, int]] = []
    for start, end in found:
        while pending and pending[0].end <= start:
            pending.pop(0)
        if joined and pending and pending[0].start < start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    yield from joined


def _rows(text: str, begin: int, end: int, mentions: Sequence[Mention]) -> Iterator[tuple[str, str]]:
    inside = mentions[bisect_left(mentions, begin, key=_start) : bisect_left(mentions, end, key=_start)]
    position = begin
    for mention in inside:
        yield from ((token, "O") for token in _TOKEN.findall(text, position, mention.start))
        type = re.sub(r"\s", "_", mention.type)
        for number, token in enumerate(_TOKEN.findall(text, mention.start, mention.end)):
            prefix = "B" if number == 0 else "I"
            yield token, f"{prefix}-{type}" if type else prefix
        position = mention.end
    yield from ((token, "O") for token in _TOKEN.findall(text, position, end))
