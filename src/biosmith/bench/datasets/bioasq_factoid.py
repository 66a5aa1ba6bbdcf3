"""BioASQ 7b, factoid: a name that answers a question, from texts that the BioBERT authors put into SQuAD's form.

BioM reports the mean reciprocal rank (section 4.1), Bioformer and BioMegatron strict and lenient accuracy too.
"""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.spans import Factoid

DATASET = Factoid(
    About(
        name="BioASQ-factoid",
        task="spans",
        metric="mean_reciprocal_rank",
        counted="pairs",
        folders=("bioasq/factoid", "BioASQ-7b", "QA/BioASQ", "BioASQ"),
        citation="Nentidis et al. (2019), BioASQ 7b; Yoon et al. (2019), BioBERT for question answering",
        licence="terms of BioASQ and NLM; registration required, not redistributable",
        source=(
            "Register at bioasq.org, then get the BioASQ 7b files of dmis-lab/bioasq-biobert on GitHub "
            "(BioASQ-train-factoid-7b*.json, BioASQ-test-factoid-7b*.json, 7B*_golden.json) and put them into a folder "
            "bioasq/factoid; or make them of BioASQ's own: biosmith data convert training7b.json --out "
            "BioASQ-train-factoid-7b.json."
        ),
        paper={"train": Paper(5537), "dev": Paper(0)},  # BioMegatron, Table 9
        seeds=10,
    )
)
