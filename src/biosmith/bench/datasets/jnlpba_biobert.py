"""JNLPBA as the BioBERT authors prepared it: one type, finer words, and another cut of training and development data.

The scores are not those of BLURB's JNLPBA: the same model is three points lower here.
"""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Tagging

DATASET = Tagging(
    About(
        name="JNLPBA-BioBERT",
        task="ner",
        metric="entity_f1",
        counted="mentions",
        folders=("JNLPBA-BioBERT",),
        citation="Collier and Kim (2004), JNLPBA shared task; Lee et al. (2020), BioBERT",
        licence="GENIA licence: annotations CC BY 3.0, attribution to the GENIA project",
        source=(
            "Get it from the named-entity datasets of dmis-lab/biobert on GitHub (NERdata/JNLPBA) and put the files "
            "into a folder JNLPBA-BioBERT."
        ),
        paper={"train": Paper(32178), "dev": Paper(8575), "test": Paper(6241)},  # Bioformer, Table 2
    ),
)
