"""NLM-Chem: chemicals in 150 full-text articles; a record a passage."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.tagging import DocumentTagging

DATASET = DocumentTagging(
    About(
        name="NLM-Chem",
        task="ner",
        metric="entity_f1",
        counted="documents",
        folders=("NLM-Chem", "NLMChem"),
        citation="Islamaj et al. (2021), NLM-Chem",
        licence="CC0 1.0",
        source=(
            "Get it from ncbi/AIONER on GitHub (data/pubtator: NLMchem_Train.PubTator, NLMchem_Dev.PubTator, "
            "NLMchem_Test.PubTator), or as BioC from NCBI."
        ),
        paper={"train": Paper(80), "dev": Paper(20), "test": Paper(50)},
    ),
    names_of=(
        ("train", ("NLMchem_Train.PubTator", "Train.PubTator", "BC7T2-NLMChem-corpus-train.BioC.xml")),
        ("dev", ("NLMchem_Dev.PubTator", "Dev.PubTator", "BC7T2-NLMChem-corpus-dev.BioC.xml")),
        ("test", ("NLMchem_Test.PubTator", "Test.PubTator", "BC7T2-NLMChem-corpus-test.BioC.xml")),
    ),
)
