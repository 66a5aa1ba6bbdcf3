"""COVID-QA: questions of experts on articles about COVID-19, in SQuAD's form; one file, the articles are long."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.spans import Squad

EARLIER = "the public copy here is the authors' version of 23 April 2020; the paper counts the final one"

DATASET = Squad(
    About(
        name="COVID-QA",
        task="spans",
        metric="f1",
        counted="instances",
        folders=("covidqa", "COVID-QA"),
        citation="Möller et al. (2020), COVID-QA",
        licence="Apache-2.0; articles CC BY",
        source="Get COVID-QA.json from deepset-ai/COVID-QA on GitHub, folder data/question-answering.",
        paper={"train": Paper(0), "dev": Paper(0), "test": Paper(2019, EARLIER)},
    ),
    names_of=(("test", ("COVID-QA.json", "200423_covidQA.json")),),
)
