"""BIOSSES: how alike are two biomedical sentences, 0 to 4, the mean of five annotators."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Similarity, number
from biosmith.tasks.instances import Instance


def make(cells: dict[str, str]) -> Instance:
    """An instance from a row."""
    return Instance(cells["pair_id"], cells["sent1"], number(cells["score"], 0, 4), cells["sent2"])


DATASET = Similarity(
    About(
        name="BIOSSES",
        task="similarity",
        metric="pearson",
        counted="instances",
        folders=("biosses", "BIOSSES"),
        citation="Sogancioglu et al. (2017), BIOSSES",
        licence="GPL-3.0",
        source="Get the pairs from the BIOSSES authors; BLURB's split is in its preprocessing scripts.",
        paper={"train": Paper(64), "dev": Paper(16), "test": Paper(20)},
        seeds=10,
    ),
    columns=("pair_id", "sent1", "sent2", "score"),
    header=True,
    make=make,
)
