"""DDI: interactions of two drugs marked in a sentence (SemEval-2013 task 9), as BLURB prepares them."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Classes, one_of
from biosmith.tasks.instances import Instance

LABELS = ("DDI-false", "DDI-advise", "DDI-effect", "DDI-int", "DDI-mechanism")


def make(cells: dict[str, str]) -> Instance:
    """An instance from a row."""
    return Instance(cells["id"], cells["sentence"], one_of(cells["label"], LABELS))


DATASET = Classes(
    About(
        name="DDI",
        task="relations",
        metric="micro_f1",
        counted="instances",
        folders=("ddi/blurb", "DDI"),
        citation="Herrero-Zazo et al. (2013), DDI corpus",
        licence="CC BY-NC 4.0",
        source="Get the corpus from isegura/DDICorpus on GitHub and make the instances: biosmith data prepare ddi.",
        paper={"train": Paper(25296), "dev": Paper(2496), "test": Paper(5716)},
    ),
    columns=("id", "sentence", "label"),
    header=False,
    make=make,
    labels=LABELS,
    negative="DDI-false",
)
