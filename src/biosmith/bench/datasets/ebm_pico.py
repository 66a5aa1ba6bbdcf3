"""EBM PICO: participants, interventions and outcomes in 4,993 abstracts of trials, scored word by word."""

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Tagging

DATASET = Tagging(
    About(
        name="EBM-PICO",
        task="pico",
        metric="word_f1_macro",
        counted="words",
        folders=(
            "EBM-NLP/blurb",
            "EBM-PICO",
            "ebmnlp",
        ),
        citation="Nye et al. (2018), EBM-NLP",
        licence="not stated upstream; preprocessing of BLURB: MIT",
        source=(
            "Get ebm_nlp_2_00.tar.gz from bepnye/EBM-NLP on GitHub and BLURB's lists of each split from its preprocessing "
            "scripts, and make the files: biosmith data prepare ebm-pico."
        ),
        paper={
            "train": Paper(339167, "not at hand in any public small file"),
            "dev": Paper(85321, "2.3 % more here; the published number cannot be had from this file"),
            "test": Paper(16364),
        },
    ),
    by_words=True,
    types=("PAR", "INT", "OUT"),
)
