"""BC5CDR, diseases: mentions in 1,500 PubMed abstracts (BioCreative V)."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Tagging

DATASET = Tagging(
    About(
        name="BC5-disease",
        task="ner",
        metric="entity_f1",
        counted="mentions",
        folders=(
            "BC5CDR-disease",
            "BC5CDR-disease-IOB",
            "BC5-disease",
        ),
        citation="Li et al. (2016), BioCreative V CDR task corpus",
        licence="public domain (US Government work); preprocessing by Crichton et al. (2017), CC BY 4.0",
        source="Get it from the MTL-Bioinformatics-2016 repository of cambridgeltl on GitHub, folder data/BC5CDR-disease-IOB.",
        paper={
            "train": Paper(4182),
            "dev": Paper(4244, "2 more here: the converter cuts St. Anthony's fire after St., twice"),
            "test": Paper(4424),
        },
    ),
    types=("Disease",),
)
