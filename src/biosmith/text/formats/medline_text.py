"""The tagged text form of MEDLINE, as PubMed saves it: `PMID- `, `TI  - `, lines that go on after six spaces.

A record begins with its PMID. Passages are "title" and one "abstract": the labels of its sections are part of the
text ("BACKGROUND: ..."), for in this form nothing tells them from it. Titles, other abstracts and infons follow the
rules of `medline.py`; other tags are not read.

A record that is not UTF-8, and a line without a tag, are set aside; the records around them are read. ASN.1, the
third form that PubMed offers, is recognised and refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Document, Passage
from biosmith.text.formats.medline import NOT_HERE, YEAR, title_passages
from biosmith.text.markup import clean

NAME = "medline-text"
SUFFIXES = (".medline", ".nbib", ".medline.txt", ".txt")

_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?\s*PMID-[ \t]+\d")
_ASN1 = re.compile(rb"(?:\xef\xbb\xbf)?\s*[A-Z][A-Za-z-]*(?:entry|set) ::= ")
_LISTS = {"LA": "language", "PT": "publication_types"}

_LINE = re.compile(rb"[^\r]*(?:\r\n?|$)")
_LINE_END = re.compile(r"\r\n?|\n")

Fields = dict[str, list[str]]


def looks_like(head: bytes) -> bool:
    """Whether the file begins with a PMID tag, or is ASN.1 of PubMed."""
    return _BEGIN.match(head) is not None or _ASN1.match(head) is not None


def read(stream: IO[bytes], rejects: Rejects, file: str, *, mesh: bool = False) -> Iterator[Document]:
    """Stream the records of a file.

    Args:
        stream: UTF-8 text, any line ends.
        rejects: receives records that are not UTF-8 or have no PMID, and lines without a tag.
        file: name for messages.
        mesh: also read MeSH headings.

    Raises:
        BadInput: the file is ASN.1.
    """
    lines: list[bytes] = []
    begun = 0
    for number, line in enumerate(_lines(stream), 1):
        if not begun:
            if _ASN1.match(line):
                raise BadInput(
                    file, "ASN.1 is not read; save the records as MEDLINE text (PubMed format) or XML"
                )
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.startswith(b"PMID-"):
            yield from _read_record(lines, begun, mesh, rejects, file)
            lines, begun = [], number
        lines.append(line)
    yield from _read_record(lines, begun, mesh, rejects, file)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    for line in stream:
        if b"\r" in line and b"\r" in line.rstrip(b"\r\n"):
            yield from _LINE.findall(line)[:-1]
        else:
            yield line


def _read_record(
    lines: list[bytes], begun: int, mesh: bool, rejects: Rejects, file: str
) -> Iterator[Document]:
    if not begun:
        if b"".join(lines).strip():
            rejects.add(
                file, "line 1", "text before the first PMID", lines[0].decode(errors="replace").strip()
            )
        return
    try:
        text = b"".join(lines).decode()
    except UnicodeDecodeError as error:
        rejects.add(
            file,
            f"record at line {begun}",
            f"not UTF-8: {error.reason}",
            lines[0].decode(errors="replace").strip(),
        )
        return
    fields: Fields = {}
    values: list[str] = []
    for number, line in enumerate(_LINE_END.split(text) if "\r" in text else text.split("\n"), begun):
        if line[4:5] == "-" and line[:1].isupper():
            values = fields.setdefault(line[:4].strip(), [])
            values.append(line[5:].strip())
        elif line[:1].isspace() and values:
            values[-1] += f" {line.strip()}"
        elif line.strip():
            rejects.add(file, f"line {number}", "line without a tag", line.strip())
    if not fields["PMID"][0]:
        rejects.add(file, f"record at line {begun}", "citation without a PMID")
        return
    yield _document({tag: [clean(value) for value in values] for tag, values in fields.items()}, mesh)


def _document(fields: Fields, mesh: bool) -> Document:
    infons = {"pmid": fields["PMID"][0].split()[0], "version": "1"}
    for tag, key in _LISTS.items():
        if tag in fields:
            infons[key] = "; ".join(fields[tag])
    for tag, key in (("TT", "vernacular_title"), ("PMC", "pmcid"), ("TA", "journal"), ("JT", "journal")):
        if tag in fields:
            infons[key] = fields[tag][0]
    if "DP" in fields and (year := YEAR.search(fields["DP"][0])) is not None:
        infons["year"] = year[0]
    if "LR" in fields and fields["LR"][0].isdigit():
        revised = max(fields["LR"])
        infons["date_revised"] = f"{revised[:4]}-{revised[4:6]}-{revised[6:8]}"
    for value in [*fields.get("LID", ()), *fields.get("AID", ())]:
        if value.endswith("[doi]"):
            infons.setdefault("doi", value.removesuffix("[doi]").strip())
    if mesh and "MH" in fields:
        infons["mesh"] = "; ".join(fields["MH"])
    titles = fields.get("TI") or fields.get("BTI") or [""]
    passages = title_passages(titles[0])
    passages += [Passage("abstract", text) for text in fields.get("AB", ()) if text]
    passages += _other_abstracts(fields, infons)
    return Document.build(infons["pmid"], passages, infons=infons)


def _other_abstracts(fields: Fields, infons: dict[str, str]) -> list[Passage]:
    """English ones as passages, others as infons; the language of each is the tag after it."""
    passages = []
    languages = [*fields.get("OABL", ()), *(["eng"] * len(fields.get("OAB", ())))]
    for text, language in zip(fields.get("OAB", ()), languages, strict=False):
        if not text or NOT_HERE in text.lower():
            continue
        if language == "eng":
            passages.append(Passage("other_abstract", text))
        else:
            key = f"other_abstract_{language}"
            infons[key] = f"{infons[key]} {text}" if key in infons else text
    return passages
