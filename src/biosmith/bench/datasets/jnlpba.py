"""JNLPBA: proteins, DNA, RNA, cell types and cell lines in 2,404 MEDLINE abstracts (GENIA).

BLURB merges the five types into one (Gu et al., 2021, sections 4.1 and 5.2): only the place of a mention counts.
"""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Tagging

DATASET = Tagging(
    About(
        name="JNLPBA",
        task="ner",
        metric="entity_f1",
        counted="mentions",
        folders=("JNLPBA",),
        citation="Collier and Kim (2004), JNLPBA shared task",
        licence="GENIA licence: annotations CC BY 3.0, attribution to the GENIA project",
        source="Get it from the MTL-Bioinformatics-2016 repository of cambridgeltl on GitHub, folder data/JNLPBA.",
        paper={
            "train": Paper(46750),
            "dev": Paper(4551),
            "test": Paper(8662),
        },
        protocol={"types": "merged into one"},
    ),
    types=("protein", "DNA", "cell_type", "cell_line", "RNA"),
    one_type=True,
)
