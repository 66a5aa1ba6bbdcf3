"""BC2GM: gene mentions in sentences of PubMed abstracts (BioCreative II)."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Tagging

DATASET = Tagging(
    About(
        name="BC2GM",
        task="ner",
        metric="entity_f1",
        counted="mentions",
        folders=(
            "BC2GM",
            "BC2GM-IOB",
        ),
        citation="Smith et al. (2008), BioCreative II gene mention",
        licence="NCBI public domain notice; preprocessing by Crichton et al. (2017), CC BY 4.0",
        source="Get it from the MTL-Bioinformatics-2016 repository of cambridgeltl on GitHub, folder data/BC2GM-IOB.",
        paper={
            "train": Paper(15197),
            "dev": Paper(3061),
            "test": Paper(6325),
        },
    ),
    types=("GENE",),
)
