"""ChemProt: relations of a chemical and a protein marked in a sentence (BioCreative VI), as BLURB prepares them."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Classes, one_of
from biosmith.tasks.instances import Instance

LABELS = ("false", "CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9")


def make(cells: dict[str, str]) -> Instance:
    """An instance from a row."""
    return Instance(cells["id"], cells["sentence"], one_of(cells["label"], LABELS))


DATASET = Classes(
    About(
        name="ChemProt",
        task="relations",
        metric="micro_f1",
        counted="instances",
        folders=("chemprot/blurb", "ChemProt"),
        citation="Krallinger et al. (2017), BioCreative VI ChemProt",
        licence="registration and citation asked for by BioCreative; no licence file in the corpus",
        source="Get the corpus from BioCreative VI and make the instances: biosmith data prepare chemprot.",
        paper={"train": Paper(18035), "dev": Paper(11268), "test": Paper(15745)},
    ),
    columns=("id", "sentence", "label"),
    header=False,
    make=make,
    labels=LABELS,
    negative="false",
)
