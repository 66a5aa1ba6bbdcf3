"""BioRED: six types of entities, and relations between them, in 600 PubMed abstracts; the entities are tagged here."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.tagging import DocumentTagging

DATASET = DocumentTagging(
    About(
        name="BioRED",
        task="ner",
        metric="entity_f1",
        counted="mentions",
        folders=("BioRED",),
        citation="Luo et al. (2022), BioRED",
        licence="not stated; produced by NCBI and offered for download without terms",
        source="Get it from the BioRED page of NCBI (Train.PubTator, Dev.PubTator, Test.PubTator).",
        whole=Paper(20419),
    ),
    types=(
        "GeneOrGeneProduct",
        "DiseaseOrPhenotypicFeature",
        "ChemicalEntity",
        "OrganismTaxon",
        "SequenceVariant",
        "CellLine",
    ),
    names_of=(
        ("train", ("Train.PubTator", "Train.BioC.JSON", "Train.BioC.XML")),
        ("dev", ("Dev.PubTator", "Dev.BioC.JSON", "Dev.BioC.XML")),
        ("test", ("Test.PubTator", "Test.BioC.JSON", "Test.BioC.XML")),
    ),
)
