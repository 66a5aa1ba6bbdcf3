"""Instances of tasks over whole texts: a text or a pair of texts, and what is right for it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text import files

ENTITIES = ".entities.jsonl"

Label = str | float | tuple[str, ...]


class Entity(NamedTuple):
    """A mention in the text of an instance: code points, end exclusive, and its type (GENE, DRUG, ...)."""

    start: int
    end: int
    type: str


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a split.

    Attributes:
        id: its name in the file.
        text, pair: the text, and the second one for pairs and questions ("" otherwise).
        label: a class, a number, or the classes of a text that may have several.
        group: what it is scored with: the abstract of a sentence; "" where each instance is scored alone.
        file, line: where it stands.
        entities: the two mentions of a relation; empty where only a dummified or marked text is at hand.
        original: the text that `entities` stand in, where `text` is a dummified one; "" where it is `text` itself.
    """

    id: str
    text: str
    label: Label
    pair: str = ""
    group: str = ""
    file: str = ""
    line: int | str = 0
    entities: tuple[Entity, ...] = ()
    original: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A span of a context: its text, and where it begins, in code points."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question with a text that may hold its answer.

    Attributes:
        id: its name in the file.
        text, context: the question, and the text to find the answer in.
        answers: reference answers that stand in the context; none where the context does not answer it (SQuAD 2.0).
        gold: what an answer is scored against where that is not just `answers`: synonyms of BioASQ's golden files.
        group: what it is scored with: BioASQ asks one question of several contexts; "" where it is scored alone.
        file, line: where it stands.
    """

    id: str
    text: str
    context: str
    answers: tuple[Answer, ...] = ()
    gold: tuple[str, ...] = ()
    group: str = ""
    file: str = ""
    line: int | str = 0


# Names that other editions of the same files (BLUE's) give to columns.
OTHER_NAMES = {"id": ("index",), "pair_id": ("index",), "sent1": ("sentence1",), "sent2": ("sentence2",)}


class BadRow(ValueError):
    """A row that is no instance; the message says what is wrong with it."""


def read_table(
    path: Path,
    columns: Sequence[str],
    make: Callable[[dict[str, str]], Instance],
    rejects: Rejects,
    *,
    header: bool,
) -> Iterator[Instance]:
    """The rows of a tab-separated table as instances. Quotes are literal; rows end at line feeds only.

    Args:
        path: plain, .gz or .xz.
        columns: names of the columns, in their order; a first line that names them all, in any order and perhaps among
            others, is a header and says where they stand.
        make: an instance from the cells of a row by name; raises `BadRow` where they do not make one.
        rejects: collects bad rows, with their line.
        header: whether the first line has to be a header.

    Raises:
        BadInput: the header is another one, the file is damaged or not UTF-8; a bad row where `rejects` is strict.
    """
    with files.open_decompressed(path) as stream:
        number, names, places = 0, tuple(columns), tuple(range(len(columns)))
        try:
            for number, raw in enumerate(stream, start=1):
                row = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                cells = row.split("\t")
                if number == 1 and (named := _places(cells, columns)):
                    names, places = tuple(cells), named
                    continue
                if header and number == 1:
                    raise BadInput(path, "has another header", record="line 1", value=row, valid=columns)
                if not row:
                    continue
                if len(cells) != len(names):
                    reason = f"has {len(cells)} columns, not {len(names)} ({', '.join(names)})"
                    rejects.add(path, f"line {number}", reason, row)
                    continue
                try:
                    made = make({name: cells[place] for name, place in zip(columns, places, strict=True)})
                except BadRow as error:
                    rejects.add(path, f"line {number}", str(error), row)
                    continue
                yield dataclasses.replace(made, file=str(path), line=number)
        except UnicodeDecodeError as error:
            raise BadInput(path, f"is not UTF-8: {error.reason}", record=f"line {number}") from error
        except files.BROKEN as error:
            raise BadInput(path, f"is damaged: {error}", record=f"after line {number}") from error


def _places(cells: Sequence[str], columns: Sequence[str]) -> tuple[int, ...]:
    """Where a header has the columns, by their names or other usual ones; empty if it does not name each of them."""
    names = [cell.strip().lower() for cell in cells]
    wanted = [[name, *OTHER_NAMES.get(name, ())] for name in columns]
    found = [next((names.index(name) for name in group if name in names), -1) for group in wanted]
    return () if -1 in found else tuple(found)


def with_entities(path: Path, instances: Iterator[Instance]) -> Iterator[Instance]:
    """Relations of a prepared file with the texts that they were made from, if these lie beside it.

    They are in `train.entities.jsonl` beside `train.tsv`, as `biosmith data prepare` writes it: an object a line with id,
    text and entities. Without such a file the instances stay as they are.

    Raises:
        BadInput: a line cannot be read, or an instance has none.
    """
    stem = files.stem(path.name)
    beside = next(
        (f for c in ("", *files.COMPRESSED) if (f := path.with_name(stem + ENTITIES + c)).is_file()), None
    )
    if beside is None:
        yield from instances
        return
    known = _read_entities(beside)
    for instance in instances:
        if instance.id not in known:
            raise BadInput(beside, f"has no line for an instance of {path.name}", value=instance.id)
        text, entities = known[instance.id]
        yield dataclasses.replace(instance, original=text, entities=entities)


def _read_entities(path: Path) -> dict[str, tuple[str, tuple[Entity, ...]]]:
    found = {}
    number = 0
    with files.open_decompressed(path) as stream:
        try:
            for line in stream:
                number += 1
                record = json.loads(line)
                entities = tuple(Entity(int(a), int(b), str(type)) for a, b, type in record["entities"])
                found[str(record["id"])] = (str(record["text"]), entities)
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(path, f"is not a line of entities: {error!r}", record=f"line {number}") from error
        except files.BROKEN as error:
            raise BadInput(path, f"is damaged: {error}", record=f"after line {number}") from error
    return found
