"""DDI-2013: every pair of drugs of a sentence, as BLURB makes it of the corpus.

A discontinuous mention is replaced from its first to its last character; overlapping mentions become one marker.
Offsets are taken as the file has them: the release that BLURB used has 23 mentions whose offsets are one too high, and
its instances inherit them. The authors' own release (DDICorpus-2013.zip) names its folders otherwise and differs in ten
files; its instances are nearly BLURB's.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from lxml.etree import _Element as Element

from biosmith.artefact import folder_by_rename
from biosmith.bench.prepare.marking import Pair, Span, mark, write_entities, write_rows
from biosmith.bench.prepare.sources import find_lists, named_member, read_list, wanted_members
from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.tasks.instances import ENTITIES
from biosmith.text.xml import elements

LISTS = {split: f"{split}_files.tsv" for split in ("train", "dev", "test")}
# folder of the release that BLURB used -> of the authors' own
AUTHORS = {"train_dataset/": "Train/", "test_dataset/": "Test for DDI Extraction task/"}


def prepare(
    raw: Path, out: Path, splits: Path | None = None, faults: Rejects | None = None
) -> dict[str, int]:
    """See `biosmith.bench.prepare.prepare`; the lists name the files of each split, in the order of the instances."""
    where = "BLURB's preprocessing has them as indexing/DDI"
    lists = find_lists(raw, splits, LISTS, ("indexing", "blurb/indexing", "."), where)
    wanted = {split: read_list(path) for split, path in lists.items()}
    corpus = _read(raw, {name for names in wanted.values() for name in names})
    collected = Rejects() if faults is None else faults
    with folder_by_rename(out) as temporary:
        counts = {}
        for split, names in wanted.items():
            rows = [row for n in names for row in _pairs(named_member(corpus, n, lists[split]), n, collected)]
            (temporary / f"{split}.tsv").write_bytes(write_rows(rows))
            (temporary / f"{split}{ENTITIES}").write_bytes(write_entities(rows))
            counts[split] = len(rows)
    return counts


def _read(raw: Path, names: set[str]) -> dict[str, bytes]:
    """The files under the names of the lists, whichever release they are from."""
    theirs = {
        name: name.replace(ours, own, 1) for name in names for ours, own in AUTHORS.items() if ours in name
    }
    found = wanted_members(raw, ".xml", names | set(theirs.values()))
    return found | {name: found[own] for name, own in theirs.items() if own in found}


def _pairs(content: bytes, name: str, faults: Rejects) -> Iterator[Pair]:
    for document in elements(BytesIO(content), ("document",), name):
        for sentence in document.iterchildren("sentence"):
            text = sentence.get("text", "").replace("\r", " ").replace("\n", " ")
            spans = {}
            for entity in sentence.iterchildren("entity"):
                spans[entity.get("id")] = _hull(entity, name)
                _compare(entity, text, name, faults)
            for pair in sentence.iterchildren("pair"):
                if pair.get("ddi") == "true" and not pair.get("type"):
                    faults.add(name, pair.get("id"), 'has ddi="true" and no type; the pair is left out')
                    continue
                ends = [spans.get(pair.get(side)) for side in ("e1", "e2")]
                if ends[0] is None or ends[1] is None:
                    raise BadInput(name, "a pair names an entity that is not there", record=pair.get("id"))
                marked = mark(text, ends[0], ends[1], ("@DRUG$", "@DRUG$"), "@DRUG-DRUG$")
                both = ((*ends[0], "DRUG"), (*ends[1], "DRUG"))
                yield Pair(pair.get("id", ""), marked, _label(pair), text, both)


def _hull(entity: Element, name: str) -> Span:
    """From the first to the past-the-last character; the file's ends are inclusive."""
    offsets = entity.get("charOffset", "").replace(";", "-").split("-")
    if len(offsets) < 2 or not all(o.isdecimal() for o in offsets):
        raise BadInput(name, "charOffset is not start-end", record=entity.get("id"), value=offsets)
    return int(offsets[0]), int(offsets[-1]) + 1


def _compare(entity: Element, text: str, name: str, faults: Rejects) -> None:
    """Note where the text at the offsets is not the entity's own; BLURB takes the offsets all the same."""
    stated = entity.get("text", "")
    start, end = _hull(entity, name)
    if ";" not in entity.get("charOffset", "") and text[start:end].split() != stated.split():
        there = f"{stated!r} at {start}-{end - 1}, where the text is {text[start:end]!r}"
        faults.add(name, entity.get("id"), "charOffset does not fit the text; taken as it is", there)


def _label(pair: Element) -> str:
    return f"DDI-{pair.get('type')}" if pair.get("ddi") == "true" else "DDI-false"
