"""DDI as Bioformer scores it: BLUE's cut of the training documents, micro F1 over the four types."""

from biosmith.bench.blue import COLUMNS, BlueRelations
from biosmith.bench.dataset import About, Paper

OTHER_CUT = "BLUE cuts the training documents elsewhere than BLURB, whose files are here"

DATASET = BlueRelations(
    About(
        name="DDI-BLUE",
        task="relations",
        metric="micro_f1",
        counted="positives",
        folders=("ddi/blue", "DDI-BLUE", "ddi/blurb", "DDI"),
        citation="Herrero-Zazo et al. (2013), DDI corpus; Peng et al. (2019), BLUE",
        licence="CC BY-NC 4.0",
        source=(
            "Get the prepared files from ncbi-nlp/BLUE_Benchmark on GitHub, or make BLURB's instances of the corpus: "
            "biosmith data prepare ddi."
        ),
        paper={  # Bioformer, Table 2
            "train": Paper(2937, OTHER_CUT),
            "dev": Paper(1004, OTHER_CUT),
            "test": Paper(979),
        },
    ),
    columns=COLUMNS,
    header=True,
    labels=("DDI-false", "DDI-advise", "DDI-effect", "DDI-int", "DDI-mechanism"),
    negative="DDI-false",
)
