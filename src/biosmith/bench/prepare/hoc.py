"""HoC: every sentence of an abstract with its hallmarks, as BLURB makes them of the corpus.

The corpus has a sentence a line in `text/PMID.txt`, and in `labels/PMID.txt` a segment for each, which begins with `<`;
several labels are joined by ` AND`, and what is finer than a hallmark stands after `--`. Lists name the abstracts of each
split, in the order of the instances.
"""

from __future__ import annotations

from pathlib import Path

from biosmith.artefact import folder_by_rename
from biosmith.bench.prepare.sources import find_lists, named_member, read_list, wanted_members
from biosmith.bench.records import decode
from biosmith.errors import BadInput
from biosmith.rejects import Rejects

LISTS = {split: f"{split}_pmid.tsv" for split in ("train", "dev", "test")}
HALLMARKS = (
    "Activating invasion and metastasis",
    "Avoiding immune destruction",
    "Cellular energetics",
    "Enabling replicative immortality",
    "Evading growth suppressors",
    "Genomic instability and mutation",
    "Inducing angiogenesis",
    "Resisting cell death",
    "Sustaining proliferative signaling",
    "Tumor promoting inflammation",
)
NONE = "NULL"


def prepare(
    raw: Path, out: Path, splits: Path | None = None, faults: Rejects | None = None
) -> dict[str, int]:
    """See `biosmith.bench.prepare.prepare`; `raw` is the folder or archive with `labels` and `text`."""
    lists = find_lists(
        raw, splits, LISTS, ("indexing", "."), "BLURB's preprocessing has them as indexing/HoC"
    )
    wanted = {split: [name.removesuffix(".txt") for name in read_list(path)] for split, path in lists.items()}
    names = {f"{part}/{id}.txt" for ids in wanted.values() for id in ids for part in ("labels", "text")}
    corpus = wanted_members(raw, ".txt", names)
    with folder_by_rename(out) as temporary:
        counts = {}
        for split, ids in wanted.items():
            rows = [row for id in ids for row in _sentences(corpus, id, lists[split])]
            lines = ["\t".join(row) + "\n" for row in [("labels", "sentence", "index"), *rows]]
            (temporary / f"{split}.tsv").write_bytes("".join(lines).encode())
            counts[split] = len(rows)
    return counts


def _sentences(corpus: dict[str, bytes], id: str, listed_in: Path) -> list[tuple[str, str, str]]:
    names = (f"text/{id}.txt", f"labels/{id}.txt")
    text, labels = (decode(named_member(corpus, name, listed_in), name) for name in names)
    sentences = [line.strip() for line in text.split("\n") if line.strip()]
    segments = labels.split("<")[1:]
    if len(sentences) != len(segments):
        raise BadInput(names[1], f"labels {len(segments)} sentences, {names[0]} has {len(sentences)}")
    return [
        (_marks(segment, names[1], number), sentence, f"{id}_s{number}")
        for number, (sentence, segment) in enumerate(zip(sentences, segments, strict=True))
    ]


def _marks(segment: str, file: str, number: int) -> str:
    """`0_x,1_x,...,9_x`, with 1 for the hallmarks of the sentence."""
    labels = {label.partition("--")[0].strip() for label in segment.split(" AND")} - {"", NONE}
    unknown = labels - set(HALLMARKS)
    if unknown:
        record = f"sentence {number + 1}"
        raise BadInput(file, "is not a hallmark", record=record, value=min(unknown), valid=HALLMARKS)
    return ",".join(f"{i}_{int(hallmark in labels)}" for i, hallmark in enumerate(HALLMARKS))
