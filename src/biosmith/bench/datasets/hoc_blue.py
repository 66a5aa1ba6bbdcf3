"""HoC as Bioformer scores it: BLUE's cut of the 1,580 abstracts that have a label, micro F1 by abstract.

The scores are not those of BLURB's HoC, which counts the 272 abstracts without a label too.
"""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.datasets.hoc import LABELS, make
from biosmith.bench.kinds import Documents

DATASET = Documents(
    About(
        name="HoC-BLUE",
        task="documents",
        metric="micro_f1",
        counted="instances",
        folders=("hoc/blue", "HoC-BLUE"),
        citation="Baker et al. (2016), Hallmarks of Cancer; Peng et al. (2019), BLUE",
        licence="GPL-3.0",
        source=(
            "Get the prepared files of HoC (labels, sentence, index) from ncbi-nlp/BLUE_Benchmark on GitHub and put "
            "train.tsv, dev.tsv and test.tsv into a folder hoc/blue."
        ),
        paper={"train": Paper(1108), "dev": Paper(157), "test": Paper(315)},  # Bioformer, Table 2
    ),
    columns=("labels", "sentence", "index"),
    header=True,
    make=make,
    labels=LABELS,
)
