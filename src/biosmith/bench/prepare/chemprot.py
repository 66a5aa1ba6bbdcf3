"""ChemProt: every chemical and gene of a sentence as a pair, as BLURB makes it of the BioCreative VI corpus.

Sentences are found with Punkt, title and abstract apart; offsets count over title, a space, abstract. An entity counts
if it lies wholly inside the sentence. Chemicals go outside, genes inside, both in the order of the entity file; the id
names first the one that stands first (the gene where both begin together). Of a pair with two relations the last in the
file of evaluated relations wins. Pairs across sentences are lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from biosmith.artefact import folder_by_rename
from biosmith.bench.dataset import find_file
from biosmith.bench.prepare import punkt
from biosmith.bench.prepare.marking import Pair, Span, mark, write_entities, write_rows
from biosmith.errors import BadInput, UsageError, shorten
from biosmith.rejects import Rejects
from biosmith.tasks.instances import ENTITIES
from biosmith.text import files

# split -> (folder, start of the file names, end of the file names but that of the evaluated relations)
PARTS = {
    "train": ("chemprot_training", "chemprot_training", ""),
    "dev": ("chemprot_development", "chemprot_development", ""),
    "test": ("chemprot_test_gs", "chemprot_test", "_gs"),
}

GROUPS = ("CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9")  # the relations that are evaluated

# What Punkt has to know for the boundaries of the prepared files: words were left out of its English lists one by one
# until a prepared file changed. Words seen in lower case only may begin a sentence after an abbreviation; words seen
# both ways keep the boundary after an initial ("factor X. The").
_LOWER_ONLY = ("recent", "protein", "conclusions")
_BOTH_WAYS = ("a", "it", "the", "only", "these", "however", "also", "in", "when")
KNOWLEDGE = punkt.Knowledge(
    abbreviations=frozenset(
        [
            "ala",
            "c",
            "cie",
            "ct",
            "d",
            "dr",
            "g",
            "h",
            "j.c",
            "k",
            "l",
            "ltd",
            "m",
            "m.b.a",
            "mg",
            "ms",
            "p",
            "pa",
            "r",
            "s",
            "s.c",
            "st",
            "u.s",
            "v",
            "vs",
            "wis",
        ]
    ),
    starters=frozenset({"this"}),
    seen={
        **dict.fromkeys(_LOWER_ONLY, punkt.SEEN_LOWER),
        **dict.fromkeys(_BOTH_WAYS, punkt.SEEN_LOWER | punkt.SEEN_UPPER_INSIDE),
    },
)


@dataclass(frozen=True)
class _Entity:
    id: str
    is_chemical: bool
    span: Span


def prepare(
    raw: Path, out: Path, splits: Path | None = None, faults: Rejects | None = None
) -> dict[str, int]:
    """See `biosmith.bench.prepare.prepare`; `raw` is the folder with the three parts of the corpus."""
    if splits is not None:
        raise UsageError("the parts of ChemProt are its splits; leave --splits out")
    folder = _find_corpus(raw)
    collected = Rejects() if faults is None else faults
    with folder_by_rename(out) as temporary:
        counts = {}
        for split, (part, start, end) in PARTS.items():
            rows = list(_pairs(folder / part, start, end, collected))
            (temporary / f"{split}.tsv").write_bytes(write_rows(rows))
            (temporary / f"{split}{ENTITIES}").write_bytes(write_entities(rows))
            counts[split] = len(rows)
    return counts


def _find_corpus(raw: Path) -> Path:
    for folder in (raw, raw / "ChemProt_Corpus"):
        if all((folder / part).is_dir() for part, _, _ in PARTS.values()):
            return folder
    parts = ", ".join(part for part, _, _ in PARTS.values())
    raise UsageError(f"{raw} is not the ChemProt corpus; expected a folder with {parts}")


def _pairs(folder: Path, start: str, end: str, faults: Rejects) -> Iterator[Pair]:
    texts: dict[str, tuple[str, str, str]] = {}
    for path, line, (id, title, abstract) in _rows(folder, f"{start}_abstracts{end}.tsv", 3):
        if id in texts:
            raise BadInput(path, f"the abstract stands at {texts[id][2]} too", record=line, value=id)
        texts[id] = (title, abstract, line)
    entities: dict[str, dict[str, _Entity]] = defaultdict(dict)
    for path, line, cells in _rows(folder, f"{start}_entities{end}.tsv", 6):
        if cells[0] not in texts:
            raise BadInput(path, "is of an abstract that is not there", record=line, value=cells[0])
        title, abstract, _ = texts[cells[0]]
        entities[cells[0]][cells[1]] = _entity(path, line, cells, f"{title} {abstract}")
    relations: dict[tuple[str, str, str], str] = {}
    for path, line, (id, group, chemical, gene) in _rows(folder, f"{start}_gold_standard.tsv", 4):
        ends = tuple(argument.partition(":")[2] for argument in (chemical, gene))
        if group not in GROUPS:
            raise BadInput(path, "has an unknown relation", record=line, value=group, valid=GROUPS)
        unknown = [name for name in ends if name not in entities[id]]
        if unknown:
            raise BadInput(path, f"names an entity that {id} does not have", record=line, value=unknown[0])
        pair = (id, ends[0], ends[1])
        if relations.setdefault(pair, group) != group:
            faults.add(
                path, line, f"the pair has another relation before, {relations[pair]}; this one counts", group
            )
            relations[pair] = group
    for id, (title, abstract, _) in texts.items():
        text = f"{title} {abstract}"
        for offset, part in ((0, title), (len(title) + 1, abstract)):
            for a, b in punkt.sentences(part, KNOWLEDGE):
                of_abstract = entities[id].values()
                inside = [e for e in of_abstract if offset + a <= e.span[0] and e.span[1] <= offset + b]
                sentence = text[offset + a : offset + b]
                for chemical_entity in (e for e in inside if e.is_chemical):
                    for gene_entity in (e for e in inside if not e.is_chemical):
                        label = relations.get((id, chemical_entity.id, gene_entity.id), "false")
                        yield _row(id, sentence, offset + a, chemical_entity, gene_entity, label)


def _row(id: str, sentence: str, start: int, chemical: _Entity, gene: _Entity, label: str) -> Pair:
    first, second = (chemical, gene) if chemical.span[0] < gene.span[0] else (gene, chemical)
    a, b = ((e.span[0] - start, e.span[1] - start) for e in (chemical, gene))
    marked = mark(sentence, a, b, ("@CHEMICAL$", "@GENE$"), "@CHEM-GENE$")
    return Pair(f"{id}.{first.id}.{second.id}", marked, label, sentence, ((*a, "CHEMICAL"), (*b, "GENE")))


def _rows(folder: Path, name: str, columns: int) -> Iterator[tuple[Path, str, list[str]]]:
    path = find_file(folder, name)
    if path is None:
        raise UsageError(f"{folder} has no {name}")
    number = 0
    with files.open_decompressed(path) as stream:
        try:
            for number, raw in enumerate(stream, start=1):
                cells = raw.decode("utf-8").rstrip("\r\n").split("\t")
                if len(cells) != columns:
                    raise BadInput(path, f"has {len(cells)} columns, not {columns}", record=f"line {number}")
                yield path, f"line {number}", cells
        except UnicodeDecodeError as error:
            raise BadInput(path, f"is not UTF-8: {error.reason}", record=f"line {number}") from error
        except files.BROKEN as error:
            raise BadInput(path, f"is damaged: {error}", record=f"after line {number}") from error


def _entity(path: Path, line: str, cells: list[str], text: str) -> _Entity:
    _, name, kind, first, last, stated = cells
    if not (first.isdecimal() and last.isdecimal()):
        raise BadInput(path, "the entity has no offsets", record=line, value=(first, last))
    found = text[int(first) : int(last)]
    if found != stated:
        reason = f"the entity is {shorten(stated)}, the text at {first}-{last} is another"
        raise BadInput(path, reason, record=line, value=found)
    return _Entity(name, kind == "CHEMICAL", (int(first), int(last)))
