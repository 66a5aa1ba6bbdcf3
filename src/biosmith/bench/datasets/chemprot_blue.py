"""ChemProt as Bioformer scores it: BLUE's instances, macro F1 over the five relations."""

from biosmith.bench.blue import COLUMNS, BlueRelations
from biosmith.bench.dataset import About, Paper

CROSSING = "the paper counts the relations of the corpus; those across two sentences are in no instance"

DATASET = BlueRelations(
    About(
        name="ChemProt-BLUE",
        task="relations",
        metric="macro_f1",
        counted="positives",
        folders=("chemprot/blue", "ChemProt-BLUE", "chemprot/blurb", "ChemProt"),
        citation="Krallinger et al. (2017), BioCreative VI ChemProt; Peng et al. (2019), BLUE",
        licence="registration and citation asked for by BioCreative; no licence file in the corpus",
        source=(
            "Get the prepared files from ncbi-nlp/BLUE_Benchmark on GitHub, or make BLURB's instances of the corpus: "
            "biosmith data prepare chemprot."
        ),
        paper={  # Bioformer, Table 2
            "train": Paper(4154, CROSSING),
            "dev": Paper(2416, CROSSING),
            "test": Paper(3458, CROSSING),
        },
    ),
    columns=COLUMNS,
    header=True,
    labels=("false", "CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9"),
    negative="false",
    average="macro",
)
