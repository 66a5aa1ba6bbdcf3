"""BC4CHEMD: chemicals in 10,000 PubMed abstracts (BioCreative IV CHEMDNER). Read from the user's own copy."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Tagging

DATASET = Tagging(
    About(
        name="BC4CHEMD",
        task="ner",
        metric="entity_f1",
        counted="mentions",
        folders=("BC4CHEMD", "BC4CHEMD-IOB"),
        citation="Krallinger et al. (2015), CHEMDNER",
        licence="status of redistribution unclear; preprocessing by Crichton et al. (2017)",
        source=(
            "Get it from the MTL-Bioinformatics-2016 repository of cambridgeltl on GitHub, folder data/BC4CHEMD-IOB, "
            "and put train.tsv, devel.tsv and test.tsv into a folder BC4CHEMD."
        ),
        paper={
            "train": Paper(29478),  # Bioformer, Table 2
            "dev": Paper(29486),
            "test": Paper(25346),
        },
    ),
    types=("Chemical",),
)
