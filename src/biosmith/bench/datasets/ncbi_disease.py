"""NCBI-disease: disease mentions in 793 PubMed abstracts."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Tagging

DATASET = Tagging(
    About(
        name="NCBI-disease",
        task="ner",
        metric="entity_f1",
        counted="mentions",
        folders=(
            "NCBI-disease",
            "NCBI-disease-IOB",
        ),
        citation="Dogan et al. (2014), NCBI disease corpus",
        licence="public domain (US Government work); preprocessing by Crichton et al. (2017), CC BY 4.0",
        source="Get it from the MTL-Bioinformatics-2016 repository of cambridgeltl on GitHub, folder data/NCBI-disease-IOB.",
        paper={
            "train": Paper(5134),
            "dev": Paper(787),
            "test": Paper(960),
        },
    ),
    types=("Disease",),
)
