"""Mentions to identifiers by a vocabulary of names, with abbreviations expanded as their document defines them.

A name is found whatever its case, punctuation and plural s. Abbreviations are those that a text defines itself, as
"long form (SF)", by the algorithm of Schwartz and Hearst (2003).
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from biosmith.errors import BadInput, UsageError
from biosmith.text import files
from biosmith.text.document import Document, Mention

if TYPE_CHECKING:
    from biosmith.annotate.annotator import Counts

_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_PARENTHESES = re.compile(r"\(([^()]{1,80})\)")
_SYNONYM = re.compile(r'"((?:[^"\\]|\\.)*)"\s+(\w+)')
FARTHEST = 200  # characters before a parenthesis that may be its long form
MOST_SHORT_CHARACTERS = 10  # of a short form, and two words: Schwartz and Hearst, section 3.1


class Vocabulary:
    """Names and the identifiers they stand for, perhaps for mentions of one type only."""

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, tuple[str, ...]]] = {}  # name -> type ("": any) -> identifiers

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def types(self) -> set[str]:
        """The types that it has names for, case folded; "" where a name is for any."""
        return {type for of_name in self._ids.values() for type in of_name}

    def add(self, id: str, name: str, type: str = "") -> None:
        """One more name of an identifier."""
        key = name_key(name)
        if key:
            of_name = self._ids.setdefault(key, {})
            known = of_name.get(type.casefold(), ())
            if id not in known:
                of_name[type.casefold()] = (*known, id)

    def find(self, name: str, type: str = "") -> tuple[str, ...]:
        """Identifiers of a name, in the order of the vocabulary; none if it is not known."""
        of_name = self._ids.get(name_key(name))
        if of_name is None:
            return ()
        return of_name.get(type.casefold(), ()) or of_name.get("", ())


def name_key(name: str) -> str:
    """What names that differ in case, punctuation, character variants or a plural s have in common.

    >>> name_key("Breast-Cancers") == name_key("breast cancer")
    True
    """
    words = _NOT_ALPHANUMERIC.sub(" ", unicodedata.normalize("NFKC", name).casefold()).split()
    if (
        words
        and len(words[-1]) > 3
        and words[-1].endswith("s")
        and not words[-1].endswith(("ss", "us", "is"))
    ):
        words[-1] = words[-1][:-1]
    return " ".join(words)


def read_vocabulary(path: Path) -> Vocabulary:
    """A vocabulary from a file, plain, .gz or .xz.

    OBO: terms with their names and exact synonyms, obsolete ones left out. Any other file: one name a line as
    `identifier<TAB>name`, with the type of mentions it is for as a third column if it is for some only; lines that begin
    with # are comments.

    Raises:
        UsageError: there is no such file.
        BadInput: a line has one column only, the file is damaged or holds no name.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"{path} {what}; a vocabulary is a TSV (identifier, name) or OBO file")
    vocabulary = Vocabulary()
    is_obo = files.strip_compression(path.name).casefold().endswith(".obo")
    with files.open_decompressed(path) as stream:
        try:
            lines = [raw.decode("utf-8-sig").rstrip("\r\n") for raw in stream]
        except UnicodeDecodeError as error:
            raise BadInput(path, f"is not UTF-8: {error.reason}") from error
        except files.BROKEN as error:
            raise BadInput(path, f"is damaged: {error}") from error
    for id, name, type in _obo_names(lines) if is_obo else _table_names(lines, path):
        vocabulary.add(id, name, type)
    if not len(vocabulary):
        raise BadInput(path, "holds no name")
    return vocabulary


def _table_names(lines: Sequence[str], path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) < 2 or not cells[0] or not cells[1]:
            raise BadInput(
                path, "an identifier, a tab and a name are expected", record=f"line {number}", value=line
            )
        yield cells[0], cells[1], cells[2] if len(cells) > 2 else ""


def _obo_names(lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Names of the terms of an OBO file (format 1.4): `[Term]` stanzas of `tag: value` lines."""
    stanza: list[tuple[str, str]] = []
    kind = ""
    for line in [*lines, "[End]"]:
        if line.startswith("["):
            if kind == "[Term]":
                yield from _term_names(stanza)
            kind, stanza = line.strip(), []
        else:
            tag, colon, value = line.partition(":")
            if colon:
                stanza.append((tag.strip(), value.strip()))


def _term_names(stanza: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    first = dict(reversed(stanza))
    if "id" not in first or first.get("is_obsolete") == "true":
        return
    for tag, value in stanza:
        if tag == "name":
            yield first["id"], value, ""
        elif tag == "synonym":
            match = _SYNONYM.match(value)
            if match and match[2] == "EXACT":
                yield first["id"], match[1].replace('\\"', '"'), ""


def find_abbreviations(text: str) -> dict[str, str]:
    """Short forms that a text defines -> their long forms, by Schwartz and Hearst (2003).

    >>> find_abbreviations("Mice with systemic lupus erythematosus (SLE) were used.")
    {'SLE': 'systemic lupus erythematosus'}
    """
    found: dict[str, str] = {}
    for match in _PARENTHESES.finditer(text):
        short = re.split(r"[;,]\s", match[1])[0].strip()
        if _is_short_form(short):
            long = _long_form(short, text[max(0, match.start() - FARTHEST) : match.start()].rstrip())
            if long is not None:
                found.setdefault(short, long)
    return found


def _is_short_form(short: str) -> bool:
    return (
        2 <= len(short) <= MOST_SHORT_CHARACTERS
        and len(short.split()) <= 2
        and short[0].isalnum()
        and any(c.isalpha() for c in short)
    )


def _long_form(short: str, before: str) -> str | None:
    """The shortest run of words before the parenthesis that holds the letters of the short form in order, the first
    one at the beginning of a word (the paper's Figure 1)."""
    letters = sum(c.isalnum() for c in short)
    words = list(re.finditer(r"\S+", before))[-min(letters + 5, 2 * letters) :]
    if not words:
        return None
    candidate = before[words[0].start() :]
    place = len(candidate) - 1
    for index in range(len(short) - 1, -1, -1):
        wanted = short[index].lower()
        if not wanted.isalnum():
            continue
        while place >= 0 and not (
            candidate[place].lower() == wanted
            and (index > 0 or place == 0 or not candidate[place - 1].isalnum())
        ):
            place -= 1
        if place < 0:
            return None
        place -= 1
    begin = place + 1
    while begin > 0 and not candidate[begin - 1].isspace():  # lines end between words, too
        begin -= 1
    long = candidate[begin:]
    # A long form is longer than its short form, and does not hold it as a word of its own.
    return long if len(long) > len(short) and short not in long.split() else None


class LinkStep:
    """Gives mentions the identifiers of their names; see `annotator.Step`. Mentions that have some keep them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def __call__(self, documents: Sequence[Document], counts: Counts) -> list[Document]:
        """The documents with linked mentions."""
        return [self._link(document, counts) if document.mentions else document for document in documents]

    def _link(self, document: Document, counts: Counts) -> Document:
        short_forms = find_abbreviations(document.text) if "(" in document.text else {}
        mentions = tuple(self._linked(mention, short_forms) for mention in document.mentions)
        counts.linked += sum(
            bool(new.ids) and not old.ids for old, new in zip(document.mentions, mentions, strict=True)
        )
        return dataclasses.replace(document, mentions=mentions)

    def _linked(self, mention: Mention, short_forms: dict[str, str]) -> Mention:
        if mention.ids:
            return mention
        # What a text says of its own abbreviation goes before what it means elsewhere.
        ids = (
            self.vocabulary.find(short_forms[mention.text], mention.type)
            if mention.text in short_forms
            else ()
        )
        ids = ids or self.vocabulary.find(mention.text, mention.type)
        return dataclasses.replace(mention, ids=ids) if ids else mention
