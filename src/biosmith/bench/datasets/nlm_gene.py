"""NLM-Gene: genes, gene families and domains in 550 PubMed abstracts that are hard to read; mentions overlap."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.tagging import DocumentTagging

DATASET = DocumentTagging(
    About(
        name="NLM-Gene",
        task="ner",
        metric="entity_f1",
        counted="documents",
        folders=("NLM-Gene", "NLM-Gene/Corpus", "NLM-Gene-Corpus/Corpus", "NLM-Gene-Corpus"),
        citation="Islamaj et al. (2021), NLM-Gene",
        licence="CC0 1.0",
        source=(
            "Get it from ncbi/AIONER on GitHub (data/pubtator: NLMgene_Train.PubTator, NLMgene_Test.PubTator), or as BioC "
            "from Zenodo (NLM-Gene-Corpus.zip, unpacked)."
        ),
        paper={"train": Paper(450), "dev": Paper(0), "test": Paper(100)},
    ),
    names_of=(
        ("train", ("NLMgene_Train.PubTator", "Train.PubTator")),
        ("dev", ("NLMgene_Dev.PubTator", "Dev.PubTator")),
        ("test", ("NLMgene_Test.PubTator", "Test.PubTator")),
    ),
)
