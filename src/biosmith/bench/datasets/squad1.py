"""SQuAD 1.1: questions whose answer is a span of a paragraph of Wikipedia; tuned on before BioASQ (Bioformer, Table 3)."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.spans import Squad

DATASET = Squad(
    About(
        name="SQuAD-v1.1",
        task="spans",
        metric="f1",
        counted="instances",
        folders=("squad", "SQuAD"),
        citation="Rajpurkar et al. (2016), SQuAD",
        licence="CC BY-SA 4.0",
        source="Get train-v1.1.json and dev-v1.1.json from the SQuAD explorer (rajpurkar.github.io).",
        paper={"train": Paper(87599), "dev": Paper(10570), "test": Paper(None, "never published")},
        evaluated="dev",
    ),
    names_of=(("train", ("train-v1.1.json",)), ("dev", ("dev-v1.1.json",))),
)
