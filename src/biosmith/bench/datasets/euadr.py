"""EU-ADR in BioBERT's ten folds: does a sentence say that a gene and a disease are associated?"""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.folds import Folds

# The tests of the folds add up to what Lee et al. count; so do training and test of any one fold. Bioformer's Table 2
# has the numbers of the first fold under GAD-10, with the header line of the test file counted in.
WHOLE = Paper(
    355, "Bioformer's Table 2 has these numbers under GAD-10, the header line of the test file counted in"
)

DATASET = Folds(
    About(
        name="EU-ADR",
        task="relations",
        metric="f1",
        counted="instances",
        folders=("euadr/biobert", "euadr", "EU-ADR", "RE/euadr"),
        citation="van Mulligen et al. (2012), EU-ADR; Lee et al. (2020), BioBERT",
        licence="not stated",
        source="Get it from the relation datasets of dmis-lab/biobert on GitHub (REdata/euadr/1 to 10).",
        paper={"dev": Paper(0)},
        whole=WHOLE,
        folds=10,
    ),
    columns=(),
    header=False,
    labels=("0", "1"),
    negative="0",
)
