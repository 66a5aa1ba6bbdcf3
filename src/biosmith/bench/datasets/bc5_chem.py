"""BC5CDR, chemicals: mentions in 1,500 PubMed abstracts (BioCreative V)."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Tagging

DATASET = Tagging(
    About(
        name="BC5-chem",
        task="ner",
        metric="entity_f1",
        counted="mentions",
        folders=(
            "BC5CDR-chem",
            "BC5CDR-chem-IOB",
            "BC5-chem",
        ),
        citation="Li et al. (2016), BioCreative V CDR task corpus",
        licence="public domain (US Government work); preprocessing by Crichton et al. (2017), CC BY 4.0",
        source="Get it from the MTL-Bioinformatics-2016 repository of cambridgeltl on GitHub, folder data/BC5CDR-chem-IOB.",
        paper={
            "train": Paper(5203),
            "dev": Paper(5347),
            "test": Paper(5385),
        },
    ),
    types=("Chemical",),
)
