"""GAD: does a sentence say that a gene and a disease are associated? The first of BioBERT's ten folds, with a dev split."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Classes, one_of
from biosmith.tasks.instances import Instance

LABELS = ("0", "1")


def make(cells: dict[str, str]) -> Instance:
    """An instance from a row."""
    return Instance(cells["index"], cells["sentence"], one_of(cells["label"], LABELS))


DATASET = Classes(
    About(
        name="GAD",
        task="relations",
        metric="f1",
        counted="instances",
        folders=("gad/blurb", "GAD"),
        citation="Bravo et al. (2015), gene-disease associations",
        licence="CC BY 4.0",
        source="Get it from the BioBERT authors' release of relation datasets, or from BLURB's preprocessing.",
        paper={"train": Paper(4261), "dev": Paper(535), "test": Paper(534)},
    ),
    columns=("index", "sentence", "label"),
    header=True,
    make=make,
    labels=LABELS,
    negative="0",
)
