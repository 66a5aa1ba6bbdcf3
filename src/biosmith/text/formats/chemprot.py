"""ChemProt (Krallinger et al., 2017) and DrugProt: abstracts, entities and relations in three tables without headers.

`NAME_abstracts.tsv` (PMID, title, abstract) is read together with the `_entities` and `_relations` beside it (in the
test set of ChemProt all three end in `_gs.tsv`). Title and abstract are joined by one character, as the offsets
count. Entities are mentions; relations of ChemProt are of the type of their group (CPR:4) with the name and whether
the group is evaluated ("Y", "N") as the infons `name` and `evaluated`, those of DrugProt of their name. Roles are Arg1
and Arg2. `_gold_standard.tsv` repeats the evaluated relations and is not needed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import IO

from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Argument, Document, Mention, Passage, Relation
from biosmith.text.formats.mentions import place_mention

NAME = "chemprot"
SUFFIXES = ("_abstracts.tsv", "_abstracts_gs.tsv", "_abstracs.tsv")
_ENTITIES = ("_entities.tsv", "_entities_gs.tsv")
_RELATIONS = ("_relations.tsv", "_relations_gs.tsv")
COMPANIONS = (*_ENTITIES, *_RELATIONS, "_gold_standard.tsv")

_ROW = re.compile(rb"\d+\t[^\t]*\t[^\t]*$")
_WORDS = re.compile(rb"\d+\t[^\t]* [^\t]*\t[^\t]* [^\t]*$")

Rows = dict[str, list[tuple[str, list[str]]]]  # PMID -> (where, the other cells)


def looks_like(head: bytes) -> bool:
    """Whether the first row is a PMID, a title and an abstract, and one of the first has words in both."""
    rows = [row.rstrip(b"\r") for row in head.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:20]]
    return _ROW.match(rows[0]) is not None and any(_WORDS.match(row) for row in rows)


def read(
    stream: IO[bytes], rejects: Rejects, file: str, *, companion: Callable[[str], IO[bytes] | None]
) -> Iterator[Document]:
    """Stream abstracts; the two other tables are held in memory. Malformed rows go to `rejects`."""
    entities = _table(companion, _ENTITIES, (5,), rejects, file)
    relations = _table(companion, _RELATIONS, (3, 5), rejects, file)
    for number, line in files.text_lines(stream, rejects, file):
        cells = line.split("\t")
        if len(cells) != 3:
            reason = f"has {len(cells)} columns, not PMID, title and abstract"
            rejects.add(file, f"line {number}", reason, "\t".join(cells))
            continue
        id, title, abstract = cells
        document = Document.build(id, [Passage("title", title), Passage("abstract", abstract)])
        mentions = [
            found
            for where, row in entities.pop(id, [])
            if (found := _mention(row, document.text, where, rejects, file)) is not None
        ]
        related = [_relation(row) for _, row in relations.pop(id, [])]
        yield Document(id, document.text, document.passages, tuple(mentions), tuple(related))
    for left in (entities, relations):
        for id, rows in left.items():
            rejects.add(file, rows[0][0], "is of an abstract that is not in the file", id)


def _table(
    companion: Callable[[str], IO[bytes] | None],
    suffixes: tuple[str, ...],
    widths: tuple[int, ...],
    rejects: Rejects,
    file: str,
) -> Rows:
    rows: Rows = defaultdict(list)
    for suffix in suffixes:
        stream = companion(suffix)
        if stream is None:
            continue
        for number, line in files.text_lines(stream, rejects, file, f"*{suffix}, line"):
            id, *cells = line.split("\t")
            where = f"*{suffix}, line {number}"
            if len(cells) in widths:
                rows[id].append((where, cells))
            else:
                rejects.add(file, where, f"has {len(cells) + 1} columns, not {widths[-1] + 1}", cells)
    return rows


def _mention(row: list[str], text: str, where: str, rejects: Rejects, file: str) -> Mention | None:
    id, type, start, end, stated = row
    if not (start.isdecimal() and end.isdecimal()):
        rejects.add(file, where, "start and end are not whole numbers", f"{start} {end}")
        return None
    return place_mention(
        text, [(int(start), int(end))], stated, rejects=rejects, file=file, record=where, type=type, id=id
    )


def _relation(row: list[str]) -> Relation:
    arguments = tuple(Argument(role, id) for role, _, id in (cell.partition(":") for cell in row[-2:]))
    if len(row) == 3:
        return Relation(row[0], arguments)
    return Relation(row[0], arguments, infons={"evaluated": row[1].strip(), "name": row[2]})
