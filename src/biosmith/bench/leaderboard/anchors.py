"""Published scores, each with its source: shown beside what was measured and never mixed with it.

Figures are in percent, as printed. One that was made under another protocol than the dataset's here says so in
`others`; it is shown in grey with the reason and never compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

GU = "PubMedBERT paper"
LINKBERT = "LinkBERT"
BIOM = "BioM paper"
BIOM_NOTEBOOK = "BioM notebook"
FANG = "Bioformer paper"
SHIN = "BioMegatron paper"
TRIEU = "BioVAE paper"
BIOBERT = "BioBERT README"
BLUE = "BLUE README"
LLM = "LLM study"

# the short name of a source -> where its figures stand
SOURCES = {
    GU: "Gu et al. (2021), Domain-specific language model pretraining for biomedical NLP, Table 6",
    LINKBERT: "Yasunaga et al. (2022), LinkBERT: paper and README of the repository",
    BIOM: "Alrowili and Vijay-Shanker (2021), BioM-Transformers, Table 2",
    BIOM_NOTEBOOK: "BioM-Transformers repository, outputs saved in its BLURB notebook: single runs",
    FANG: "Fang et al. (2023), Bioformer, Table 3",
    SHIN: "Shin et al. (2020), BioMegatron, Tables 5 and 8",
    TRIEU: "Trieu et al. (2022), BioVAE, supplement, Table 2",
    BIOBERT: "dmis-lab/biobert-pytorch, README of named-entity-recognition",
    BLUE: "ncbi-nlp/BLUE_Benchmark, README",
    LLM: "Biomedical-NLP-Benchmarks, README: large language models",
}


@dataclass(frozen=True)
class Anchor:
    """What was published of one model.

    Attributes:
        model, source: whose figures, and where they stand: a key of `SOURCES`.
        scores: dataset -> figure in percent.
        others: dataset -> why its figure cannot be compared with the protocol here.
        blurb: the BLURB score that the source gives.
    """

    model: str
    source: str
    scores: Mapping[str, float]
    others: Mapping[str, str] = field(default_factory=dict)
    blurb: float | None = None


_BLURB = (
    *("BC5-chem", "BC5-disease", "NCBI-disease", "BC2GM", "JNLPBA", "EBM-PICO", "ChemProt", "DDI", "GAD"),
    *("BIOSSES", "HoC", "PubMedQA", "BioASQ"),
)


def _blurb(model: str, source: str, blurb: float | None, *figures: float | None) -> Anchor:
    scores = {n: f for n, f in zip(_BLURB, figures, strict=True) if f is not None}
    return Anchor(model, source, scores, blurb=blurb)


_FANG = (
    *("BC2GM", "BC4CHEMD", "BC5-chem", "BC5-disease", "JNLPBA-BioBERT", "LINNAEUS", "NCBI-disease", "S800"),
    *("ChemProt-BLUE", "DDI-BLUE", "EU-ADR", "GAD-10", "HoC-BLUE", "LitCovid", "BioASQ-factoid"),
)
_FANG_OTHERS = {
    "LitCovid": "scored on the development split",
    "BioASQ-factoid": "mean of strict and lenient accuracy and mean reciprocal rank, with and without SQuAD 1.1",
    "GAD-10": "the paper's sizes of EU-ADR and GAD-10 are exchanged",
    "EU-ADR": "the paper's sizes of EU-ADR and GAD-10 are exchanged",
}


def _fang(model: str, *figures: float) -> Anchor:
    return Anchor(model, FANG, dict(zip(_FANG, figures, strict=True)), _FANG_OTHERS)


_SUB_TOKENS = "sub-tokens are scored, not whole words"
_OTHER_CHEMPROT = "another preparation of ChemProt"
_SCIBERT = "macro F1 with SciBERT's scripts"


def _biom(model: str, *figures: float | None, **others: str) -> Anchor:
    names = ("BC5-chem", "BC5-disease", "NCBI-disease", "ChemProt", "SQuAD-v2.0", "BioASQ-factoid")
    scores = {n: f for n, f in zip(names, figures, strict=True) if f is not None}
    reasons = {name.replace("_", "-"): reason for name, reason in others.items()}
    if "BioASQ-factoid" in scores:
        reasons["BioASQ-factoid"] = "tuned on SQuAD 2.0 first"
    return Anchor(model, BIOM, scores, reasons)


ANCHORS: tuple[Anchor, ...] = (
    _blurb(
        *("BERT uncased", GU, 75.99),
        *(89.25, 81.44, 85.67, 80.90, 78.63, 72.34, 71.86, 80.04, 77.72, 82.68, 80.20, 51.62, 70.36),
    ),
    _blurb(
        *("BERT cased", GU, 75.76),
        *(89.99, 79.92, 85.87, 81.23, 78.52, 71.70, 71.54, 79.34, 77.28, 81.40, 80.12, 49.96, 74.44),
    ),
    _blurb(
        *("RoBERTa", GU, 76.33),
        *(89.43, 80.65, 86.62, 80.90, 78.81, 73.02, 72.98, 79.52, 77.72, 81.25, 79.66, 52.84, 75.20),
    ),
    _blurb(
        *("BioBERT v1.1", GU, 80.29),
        *(92.85, 84.70, 89.13, 83.82, 79.35, 73.18, 76.14, 80.88, 80.94, 89.52, 81.54, 60.24, 84.14),
    ),
    _blurb(
        *("SciBERT uncased", GU, 78.80),
        *(92.49, 84.54, 88.10, 83.36, 79.45, 73.12, 75.24, 81.06, 80.90, 86.25, 80.66, 57.38, 78.86),
    ),
    _blurb(
        *("SciBERT cased", GU, 78.08),
        *(92.51, 84.70, 88.25, 83.36, 79.56, 73.06, 75.00, 81.22, 79.66, 87.15, 81.16, 51.40, 74.22),
    ),
    _blurb(
        *("ClinicalBERT", GU, 77.19),
        *(90.80, 83.04, 86.32, 81.71, 78.59, 72.06, 72.04, 78.20, 78.40, 91.23, 80.74, 49.08, 68.50),
    ),
    _blurb(
        *("BlueBERT", GU, 76.19),
        *(91.19, 83.69, 88.04, 81.87, 78.68, 72.54, 71.46, 77.78, 77.24, 85.38, 80.48, 48.44, 68.71),
    ),
    _blurb(
        *("PubMedBERT", GU, 81.10),
        *(93.33, 85.62, 87.82, 84.52, 80.06, 73.38, 77.24, 82.36, 82.34, 92.30, 82.32, 55.84, 87.56),
    ),
    _blurb(
        *("BioLinkBERT base", LINKBERT, 83.39),
        *(93.75, 86.10, 88.18, 84.90, 79.03, 73.97, 77.57, 82.72, 84.39, 93.25, 84.35, 70.20, 91.43),
    ),
    _blurb(
        *("BioLinkBERT large", LINKBERT, 84.30),
        *(94.04, 86.39, 88.76, 85.18, 80.06, 74.19, 79.98, 83.35, 84.90, 93.63, 84.87, 72.18, 94.82),
    ),
    _blurb(
        *("BioM-ALBERT-xxlarge", BIOM_NOTEBOOK, None),
        *(92.20, 84.28, 87.67, 82.27, 79.83, 73.51, 80.05, 83.69, 84.34, 89.97, None, 74.40, 93.57),
    ),
    _blurb(
        *("BioM-ALBERT-xxlarge-PMC", BIOM_NOTEBOOK, None),
        *(92.21, 84.44, 87.59, 82.34, None, 73.48, 80.27, 84.12, 85.03, 94.44, None, 75.40, 95.00),
    ),
    _blurb(
        *("BioM-ELECTRA base", BIOM_NOTEBOOK, None),
        *(93.22, 85.21, 88.79, 84.14, 79.55, 74.23, 78.41, 82.71, 85.44, 89.67, 84.14, 69.60, None),
    ),
    _biom("RoBERTa base", 89.4, 80.7, 86.6, 73.0, 83.7, None),
    _biom("ELECTRA base++", 90.7, 83.0, 86.3, 73.7, 86.2, 52.5),
    _biom("PubMedBERT base", 93.3, 85.6, 87.9, 77.2, 79.1, 51.6),
    _biom("BioM-ELECTRA base", 93.1, 85.2, 88.4, 77.6, 84.4, 52.3),
    _biom("ELECTRA large", 91.6, 84.4, 87.6, 75.3, 90.7, 53.0),
    _biom("ALBERT xxlarge", 89.7, 81.7, 85.5, 75.8, 90.2, 53.1),
    _biom("BioRoBERTa large", 93.7, 85.2, 89.0, 78.8, None, None),
    _biom("BioM-BERT large (690K)", 92.4, 84.5, 88.6, 80.0, 87.3, 53.4),
    _biom("BioM-ELECTRA large", 93.8, 85.9, 89.0, 78.6, 88.3, 54.1),
    _biom("BioM-ALBERT-xxlarge (264K)", 93.5, 85.2, 88.7, 79.3, 87.0, 56.9),
    _biom(
        *("BioMegatron 345m", 92.5, 88.5, 87.0, 77.0, 84.2, 52.5),
        BC5_chem=_SUB_TOKENS,
        BC5_disease=_SUB_TOKENS,
        NCBI_disease="as quoted there; labelled by whole words",
        ChemProt=_OTHER_CHEMPROT,
    ),
    _fang(
        *("Bioformer 8L", 83.95, 92.04, 93.64, 86.29, 76.75, 88.48, 87.99, 73.47, 76.77, 81.84, 84.72, 81.31),
        *(86.41, 90.88, 46.51),
    ),
    _fang(
        *(
            "Bioformer 16L",
            84.26,
            92.34,
            94.00,
            86.53,
            77.17,
            88.51,
            87.73,
            74.65,
            79.07,
            84.56,
            84.76,
            81.40,
        ),
        *(86.37, 90.69, 48.61),
    ),
    _fang(
        *("BioBERT base v1.1", 84.07, 92.02, 93.67, 86.09, 76.81, 84.33, 88.48, 74.78, 77.69, 82.84, 84.21),
        *(81.94, 86.42, 90.72, 46.26),
    ),
    _fang(
        *(
            "PubMedBERT (abstracts)",
            84.66,
            92.49,
            94.20,
            87.54,
            77.14,
            88.59,
            88.52,
            74.02,
            80.10,
            84.54,
            83.60,
        ),
        *(82.65, 86.41, 90.78, 46.29),
    ),
    _fang(
        *(
            "PubMedBERT (full text)",
            84.71,
            92.63,
            94.18,
            87.17,
            77.34,
            88.45,
            87.09,
            74.21,
            80.25,
            83.74,
            83.88,
        ),
        *(82.65, 87.07, 90.78, 46.27),
    ),
    Anchor("BioMegatron 345m", SHIN, {"SQuAD-v1.1": 90.4, "SQuAD-v2.0": 84.2, "BioASQ-factoid": 39.8}),
    Anchor("BioMegatron 800m", SHIN, {"SQuAD-v1.1": 91.6, "SQuAD-v2.0": 86.1, "BioASQ-factoid": 45.1}),
    Anchor("BioMegatron 1.2b", SHIN, {"SQuAD-v1.1": 91.8, "SQuAD-v2.0": 86.4, "BioASQ-factoid": 45.6}),
    Anchor(
        "BioVAE encoder (β 0.5, d 768)",
        TRIEU,
        {"NCBI-disease": 90.12, "JNLPBA": 77.57, "ChemProt": 84.49, "BioASQ": 72.86},
        {
            "NCBI-disease": _SCIBERT,
            "JNLPBA": f"{_SCIBERT}, five types",
            "ChemProt": "SciBERT's 13 classes without a negative one: micro F1 is accuracy",
            "BioASQ": "BioBERT's scripts and splits",
        },
    ),
    Anchor(
        "BioBERT v1.1 (own repository)",
        BIOBERT,
        {"NCBI-disease": 88.30, "BC5-disease": 86.37, "BC5-chem": 93.04, "BC2GM": 83.41, "JNLPBA": 75.98},
        dict.fromkeys(
            ("NCBI-disease", "BC5-disease", "BC5-chem", "BC2GM"),
            "best run reported, trained on train and development split together",
        )
        | {"JNLPBA": "another preparation, that of JNLPBA-BioBERT"},
    ),
    Anchor(
        "BlueBERT large (P)",
        BLUE,
        {"HoC": 87.3, "DDI": 79.9, "ChemProt": 74.4},
        {
            "HoC": "F1 by example over the 315 labelled abstracts of BLUE's split",
            "DDI": "macro F1, BLUE's instances",
            "ChemProt": "BLUE's instances",
        },
    ),
    Anchor(
        "Llama 2 13B, fine-tuned",
        LLM,
        {
            "BC5-chem": 91.5,
            "NCBI-disease": 86.8,
            "ChemProt": 46.1,
            "DDI": 62.2,
            "HoC": 69.6,
            "PubMedQA": 80.4,
        },
        dict.fromkeys(("ChemProt", "DDI", "HoC"), "macro F1"),
    ),
    Anchor(
        "GPT-4, best few-shot",
        LLM,
        {"BC5-chem": 83.3, "NCBI-disease": 63.9, "PubMedQA": 75.8},
        dict.fromkeys(
            ("BC5-chem", "NCBI-disease", "PubMedQA"), "not fine-tuned: a few examples in the prompt"
        ),
    ),
)
