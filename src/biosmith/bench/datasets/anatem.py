"""AnatEM: anatomical entities in 1,212 documents, the twelve types merged into one."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Tagging

DATASET = Tagging(
    About(
        name="AnatEM",
        task="ner",
        metric="entity_f1",
        counted="mentions",
        folders=("AnatEM", "AnatEM-IOB"),
        citation="Pyysalo and Ananiadou (2014), AnatEM",
        licence="annotations CC BY-SA 3.0",
        source="Get it from the MTL-Bioinformatics-2016 repository of cambridgeltl on GitHub, folder data/AnatEM-IOB.",
        paper={"train": Paper(6946), "dev": Paper(2139), "test": Paper(4616)},
    ),
    types=("Anatomy",),
)
