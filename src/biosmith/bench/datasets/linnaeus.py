"""LINNAEUS: species mentions in 100 full-text articles."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Tagging

DATASET = Tagging(
    About(
        name="LINNAEUS",
        task="ner",
        metric="entity_f1",
        counted="mentions",
        folders=("linnaeus", "linnaeus-IOB"),
        citation="Gerner et al. (2010), LINNAEUS",
        licence="CC BY; preprocessing by Crichton et al. (2017), CC BY 4.0",
        source=(
            "Get it from the MTL-Bioinformatics-2016 repository of cambridgeltl on GitHub, folder data/linnaeus-IOB. "
            "The release of the corpus (tags.tsv beside txt) becomes tagging files, with other words, by biosmith data convert."
        ),
        paper={"train": Paper(2119), "dev": Paper(711), "test": Paper(1433)},  # Bioformer, Table 2
    ),
    types=("Species",),
)
