"""BioCreative II gene mention task (Smith et al., 2008): sentences in `NAME.in`, mentions in `GENE.eval`.

A line `ID text` is a document of one sentence; `GENE.eval` beside it gives mentions of type "GENE" as
`ID|first last|text`, counted without white space and inclusive. Each mention that has accepted alternatives in
`ALTGENE.eval` lists those that it overlaps in the infon `alternatives` ("start-end" in code points, end exclusive).
The two .eval files are read with the sentences, never alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePath
from typing import IO

from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Document, Mention, Passage
from biosmith.text.formats.mentions import place_mention

NAME = "bc2gm"
SUFFIXES = (".in", ".eval")

_GOLD, _ALTERNATIVES = "GENE.eval", "ALTGENE.eval"
_SENTENCE = re.compile(rb"(?:BC2GM\d+|P\d{8}[AT]\d{4}|@@\d+) \S")
_MENTION = re.compile(rb"[^\s|]+\|\d+ \d+\|")

Spans = dict[str, list[tuple[int, int, str, int]]]  # sentence -> (first, last, text, line)


def looks_like(head: bytes) -> bool:
    """Whether the first line is a sentence or a mention of the task."""
    return _SENTENCE.match(head) is not None or _MENTION.match(head) is not None


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Stream sentences; an .eval file gives nothing by itself and is set aside if no .in file is beside it."""
    if PurePath(files.strip_compression(file)).suffix == ".eval":
        beside = Path(file).parent
        if not beside.is_dir():
            rejects.add(file, "file", "mentions of this format are not read in archives; unpack it")
        elif not any(files.strip_compression(path.name).endswith(".in") for path in beside.glob("*")):
            rejects.add(file, "file", "holds mentions without their sentences (no .in file beside it)")
        return
    gold = _read_mentions(file, _GOLD, rejects)
    alternatives = _read_mentions(file, _ALTERNATIVES, rejects)
    for number, line in files.text_lines(stream, rejects, file):
        id, space, text = line.partition(" ")
        if not space:
            rejects.add(file, f"line {number}", "is not `ID text`", id)
            continue
        mentions = _place(gold.pop(id, []), text, rejects, _beside(file, _GOLD))
        others = _place(alternatives.pop(id, []), text, rejects, _beside(file, _ALTERNATIVES))
        yield Document(
            id, text, (Passage("sentence", text),), tuple(_with_alternatives(m, others) for m in mentions)
        )
    for name, left in ((_GOLD, gold), (_ALTERNATIVES, alternatives)):
        for id in left:
            rejects.add(_beside(file, name), id, "mentions of a sentence that is not in the .in file")


def _beside(file: str, name: str) -> str:
    return str(Path(file).with_name(name))


def _read_mentions(file: str, name: str, rejects: Rejects) -> Spans:
    """The mentions of an .eval file, plain or compressed, in the folder of the sentences; none if it is absent."""
    found: Spans = defaultdict(list)
    for ending in ("", *files.COMPRESSED):
        path = Path(_beside(file, name + ending))
        if not path.is_file():
            continue
        with files.open_decompressed(path) as stream:
            for number, line in files.text_lines(stream, rejects, str(path)):
                match = re.fullmatch(r"([^\s|]+)\|(\d+) (\d+)\|(.*)", line, re.ASCII)
                if match is None:
                    rejects.add(path, f"line {number}", "is not `ID|first last|text`", line)
                else:
                    found[match[1]].append((int(match[2]), int(match[3]), match[4], number))
        break
    return found


def _place(spans: list[tuple[int, int, str, int]], text: str, rejects: Rejects, file: str) -> list[Mention]:
    """Mentions in code points: offsets count the characters that are not white space."""
    places = [index for index, character in enumerate(text) if not character.isspace()]
    mentions = []
    for first, last, stated, line in spans:
        inside = 0 <= first <= last < len(places)
        mention = place_mention(
            text,
            [(places[first], places[last] + 1)] if inside else [],
            stated,
            rejects=rejects,
            file=file,
            record=f"line {line}",
            type="GENE",
        )
        if mention is not None:
            mentions.append(mention)
    return mentions


def _with_alternatives(mention: Mention, others: list[Mention]) -> Mention:
    near = [f"{o.start}-{o.end}" for o in others if o.start < mention.end and mention.start < o.end]
    return replace(mention, infons={**mention.infons, "alternatives": " ".join(near)}) if near else mention
