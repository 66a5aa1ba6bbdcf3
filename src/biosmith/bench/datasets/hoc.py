"""HoC: the hallmarks of cancer that an abstract speaks of, in sentences; scored by abstract, over all abstracts."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Documents
from biosmith.tasks.instances import BadRow, Instance

# 0 Activating invasion and metastasis, 1 Avoiding immune destruction, 2 Cellular energetics, 3 Enabling replicative
# immortality, 4 Evading growth suppressors, 5 Genomic instability and mutation, 6 Inducing angiogenesis, 7 Resisting
# cell death, 8 Sustaining proliferative signaling, 9 Tumor promoting inflammation
LABELS = tuple(str(i) for i in range(10))


def make(cells: dict[str, str]) -> Instance:
    """An instance from a row: `0_0,1_1,...` says of each hallmark whether the sentence has it."""
    marks = [cell.partition("_")[::2] for cell in cells["labels"].split(",")]
    if [label for label, _ in marks] != list(LABELS) or any(has not in ("0", "1") for _, has in marks):
        raise BadRow("labels are not 0_x,1_x,...,9_x with x 0 or 1")
    abstract, underscore, _ = cells["index"].rpartition("_s")
    if not underscore:
        raise BadRow("index is not PMID_sN")
    return Instance(
        cells["index"], cells["sentence"], tuple(label for label, has in marks if has == "1"), group=abstract
    )


DATASET = Documents(
    About(
        name="HoC",
        task="documents",
        metric="micro_f1",
        counted="instances",
        folders=("hoc", "HoC"),
        citation="Baker et al. (2016), Hallmarks of Cancer",
        licence="GPL-3.0",
        source=(
            "Get the corpus from sb895/Hallmarks-of-Cancer on GitHub and BLURB's lists of each split from its "
            "preprocessing scripts, and make the instances: biosmith data prepare hoc."
        ),
        paper={"train": Paper(1295), "dev": Paper(186), "test": Paper(371)},
    ),
    columns=("labels", "sentence", "index"),
    header=True,
    make=make,
    labels=LABELS,
)
