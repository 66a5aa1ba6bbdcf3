"""EBM PICO: the words of each abstract with their tags, as BLURB makes them of EBM-NLP 2.00.

The corpus has the tokens of an abstract in `documents/PMID.tokens`, and for each of participants, interventions and
outcomes a label a token (0 or 1) in `annotations/aggregated/starting_spans/ELEMENT/`, in `train` or `test/gold`. Where a
token has several, the last element of that order counts, as in the authors' own baseline; a sentence ends with each
token `.`. Lists name the abstracts of each split, in the order of the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from biosmith.artefact import folder_by_rename
from biosmith.bench.prepare.sources import find_lists, named_member, read_list, wanted_members
from biosmith.bench.records import decode
from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.tasks.labels import OUTSIDE
from biosmith.tasks.tagged import DOCUMENT_START

LISTS = {split: f"{split}_pmid.tsv" for split in ("train", "dev", "test")}
ELEMENTS = {"participants": "I-PAR", "interventions": "I-INT", "outcomes": "I-OUT"}
FOLDERS = {"train": "train", "dev": "train", "test": "test/gold"}
SPANS = "annotations/aggregated/starting_spans"
ENDINGS = (".AGGREGATED.ann", "_AGGREGATED.ann")  # of releases 2.00 and 1.00


def prepare(
    raw: Path, out: Path, splits: Path | None = None, faults: Rejects | None = None
) -> dict[str, int]:
    """See `biosmith.bench.prepare.prepare`; `raw` is the folder or archive with `documents` and `annotations`."""
    lists = find_lists(
        raw, splits, LISTS, ("indexing", "."), "BLURB's preprocessing has them as indexing/EBM-NLP"
    )
    wanted = {split: read_list(path) for split, path in lists.items()}
    corpus = _read(raw, {name for split, ids in wanted.items() for id in ids for name in _names(split, id)})
    collected = Rejects() if faults is None else faults
    with folder_by_rename(out) as temporary:
        counts = {}
        for split, ids in wanted.items():
            lines = []
            counts[split] = 0
            for id in ids:
                lines.append(f"{DOCUMENT_START} ({id})\n\n")
                for sentence in _sentences(corpus, split, id, lists[split], collected):
                    lines += [f"{token}\t{tag}\n" for token, tag in sentence]
                    lines += ["\n"] if sentence[-1][0] == "." else []  # as BLURB writes them
                    counts[split] += 1
            (temporary / f"{split}.tsv").write_bytes("".join(lines).encode())
    return counts


def _names(split: str, id: str) -> Iterator[str]:
    yield f"documents/{id}.tokens"
    for element in ELEMENTS:
        yield from (f"{SPANS}/{element}/{FOLDERS[split]}/{id}{ending}" for ending in ENDINGS)


def _read(raw: Path, names: set[str]) -> dict[str, bytes]:
    """The files of the corpus; of a folder only those, for the annotations of single workers are very many."""
    if not raw.is_dir():
        return {**wanted_members(raw, ".tokens", names), **wanted_members(raw, ".ann", names)}
    inside = sorted(path for path in raw.iterdir() if path.is_dir())
    home = next((folder for folder in (raw, *inside) if (folder / SPANS).is_dir()), None)
    if home is None:
        raise UsageError(f"{raw} is not EBM-NLP as it is released: it has no folder {SPANS}")
    return {name: (home / name).read_bytes() for name in sorted(names) if (home / name).is_file()}


def _sentences(
    corpus: dict[str, bytes], split: str, id: str, listed_in: Path, faults: Rejects
) -> Iterator[list[tuple[str, str]]]:
    file, *annotations = _names(split, id)
    tokens = decode(named_member(corpus, file, listed_in), file).split()
    tags = [OUTSIDE] * len(tokens)
    found = [name for name in annotations if name in corpus]
    if not found:
        raise BadInput(listed_in, f"names an abstract without annotations in {FOLDERS[split]}", value=id)
    for name in found:
        labels = decode(corpus[name], name).split()
        if len(labels) != len(tokens):
            faults.add(name, "file", f"labels {len(labels)} tokens, {file} has {len(tokens)}")
        for i, label in enumerate(labels[: len(tokens)]):
            if not label.isdecimal():
                raise BadInput(name, "is not a label", record=f"token {i + 1}", value=label)
            if label != "0":
                tags[i] = ELEMENTS[name.split("/")[3]]
    sentence = []
    for token, tag in zip(tokens, tags, strict=True):
        sentence.append((token, tag))
        if token == ".":
            yield sentence
            sentence = []
    if sentence:
        yield sentence
