"""Species-800: taxa in 800 PubMed abstracts, as the BioBERT authors prepared them."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Tagging

DATASET = Tagging(
    About(
        name="S800",
        task="ner",
        metric="entity_f1",
        counted="mentions",
        folders=("s800",),
        citation="Pafilis et al. (2013), SPECIES and ORGANISMS",
        licence="not stated; distributed openly with BioBERT",
        source=(
            "Get it from the named-entity datasets of dmis-lab/biobert on GitHub (NERdata/s800). "
            "The release of the corpus (S800.tsv beside abstracts) becomes tagging files, with other words, by biosmith data convert."
        ),
        paper={"train": Paper(2557), "dev": Paper(384), "test": Paper(767)},  # Bioformer, Table 2
    ),
)
