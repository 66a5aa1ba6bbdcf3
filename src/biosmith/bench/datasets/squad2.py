"""SQuAD 2.0: as SQuAD 1.1, with questions that the paragraph does not answer (BioM, Table 2; BioMegatron, Table 8)."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.spans import Squad

DATASET = Squad(
    About(
        name="SQuAD-v2.0",
        task="spans",
        metric="f1",
        counted="instances",
        folders=("squad", "SQuAD"),
        citation="Rajpurkar et al. (2018), SQuAD 2.0",
        licence="CC BY-SA 4.0",
        source="Get train-v2.0.json and dev-v2.0.json from the SQuAD explorer (rajpurkar.github.io).",
        paper={"train": Paper(130319), "dev": Paper(11873), "test": Paper(None, "never published")},
        evaluated="dev",
    ),
    names_of=(("train", ("train-v2.0.json",)), ("dev", ("dev-v2.0.json",))),
)
