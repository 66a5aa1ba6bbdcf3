"""tmVar3: sequence variants, with genes, species and cell lines, in 500 PubMed abstracts (AIONER's edition)."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.tagging import DocumentTagging

DATASET = DocumentTagging(
    About(
        name="tmVar3",
        task="ner",
        metric="entity_f1",
        counted="documents",
        folders=("tmVar3",),
        citation="Wei et al. (2022), tmVar 3.0",
        licence="not stated; the tmVar3 software is in the public domain",
        source="Get it from ncbi/AIONER on GitHub (data/pubtator: tmVar3_Train.PubTator, tmVar3_Test.PubTator).",
        paper={"dev": Paper(0)},
        whole=Paper(500),
    ),
    names_of=(
        ("train", ("tmVar3_Train.PubTator", "Train.PubTator")),
        ("dev", ("tmVar3_Dev.PubTator", "Dev.PubTator")),
        ("test", ("tmVar3_Test.PubTator", "Test.PubTator")),
    ),
)
