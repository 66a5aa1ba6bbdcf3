"""GAD in BioBERT's ten folds: does a sentence say that a gene and a disease are associated?"""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.folds import Folds

# The tests of the folds add up to what Lee et al. count; so do training and test of any one fold. Bioformer's Table 2
# has the numbers of the first fold under EU-ADR, with the header line of the test file counted in.
WHOLE = Paper(
    5330, "Bioformer's Table 2 has these numbers under EU-ADR, the header line of the test file counted in"
)

DATASET = Folds(
    About(
        name="GAD-10",
        task="relations",
        metric="f1",
        counted="instances",
        folders=("gad/biobert", "GAD-10", "RE/GAD"),
        citation="Bravo et al. (2015), gene-disease associations; Lee et al. (2020), BioBERT",
        licence="CC BY 4.0",
        source="Get it from the relation datasets of dmis-lab/biobert on GitHub (REdata/GAD/1 to 10).",
        paper={"dev": Paper(0)},
        whole=WHOLE,
        folds=10,
    ),
    columns=(),
    header=False,
    labels=("0", "1"),
    negative="0",
)
