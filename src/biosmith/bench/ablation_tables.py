"""The papers' ablations as declarations: arms, datasets, and the figures that the papers report, in percent.

A new one is an entry in `ABLATIONS`. `reported` has a row a dataset with a figure an arm (or, where `values` names
several, an arm's figures one after the other); None where the paper, or the text of it that this was made from, has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

GU = "Gu et al. (2021)"
FANG = "Fang et al. (2023)"
SHIN = "Shin et al. (2020)"
Figures = tuple[float | None, ...]


@dataclass(frozen=True)
class Arm:
    """A column of a table.

    Attributes:
        name: its heading.
        role: whose model; the user says which model plays it.
        settings: what the arm sets for fine-tuning.
    """

    name: str
    role: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ablation:
    """One table or figure of a paper.

    Attributes:
        name, title, source: what it is called, asks, and where it stands.
        arms, datasets: columns and rows.
        reported: dataset -> figures, see the module.
        values: which values of the scorer are shown; () for the dataset's own.
        settings: of a dataset, for every arm.
        kind: "scores" fine-tunes; "pieces" counts how vocabularies cut mentions; "bias" counts labels.
        others: column -> figures by dataset, of models the paper compares with and that play no role.
        score: whether the last row is the BLURB score.
        note: what a reader must know.
    """

    name: str
    title: str
    source: str
    arms: tuple[Arm, ...]
    datasets: tuple[str, ...]
    reported: Mapping[str, Figures] = field(default_factory=dict)
    values: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    kind: Literal["scores", "pieces", "bias"] = "scores"
    others: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    score: bool = False
    note: str = ""


_BLURB = (
    *("BC5-chem", "BC5-disease", "NCBI-disease", "BC2GM", "JNLPBA", "EBM-PICO", "ChemProt", "DDI", "GAD"),
    *("BIOSSES", "HoC", "PubMedQA", "BioASQ"),
)
_NER_AND_RELATIONS = ("BC5-chem", "BC5-disease", "JNLPBA", "ChemProt", "DDI", "GAD")
_MEGATRON = ("BC5-chem", "BC5-disease", "NCBI-disease")


def _rows(*rows: Figures, names: tuple[str, ...] = _BLURB) -> dict[str, Figures]:
    return dict(zip([*names, *(["blurb"] if len(rows) > len(names) else [])], rows, strict=True))


_SUB_TOKENS = {"BC5-chem": {"labelled": "all"}, "BC5-disease": {"labelled": "all"}}

ABLATIONS: dict[str, Ablation] = {
    a.name: a
    for a in (
        Ablation(
            "pubmedbert-table-7",
            "Vocabulary and whole-word masking",
            f"{GU}, Table 7",
            (
                Arm("Wiki + Books, word piece", "general-piece"),
                Arm("Wiki + Books, whole word", "general-word"),
                Arm("PubMed, word piece", "domain-piece"),
                Arm("PubMed, whole word", "domain-word"),
            ),
            _BLURB,
            _rows(
                (93.20, 93.31, 92.96, 93.33),
                (85.00, 85.28, 84.72, 85.62),
                (88.39, 88.53, 87.26, 87.82),
                (83.65, 83.93, 83.19, 84.52),
                (79.90, 79.76, 79.49, 80.06),
                (73.30, 73.52, 73.44, 73.38),
                (75.04, 76.70, 75.72, 77.24),
                (81.30, 82.60, 80.84, 82.36),
                (79.48, 80.30, 79.34, 82.34),
                (91.36, 91.79, 92.45, 92.30),
                (81.76, 81.74, 80.38, 82.32),
                (52.20, 55.92, 54.76, 55.84),
                (73.69, 76.41, 78.51, 87.56),
                (79.00, 79.87, 79.51, 81.10),
            ),
            score=True,
        ),
        Ablation(
            "pubmedbert-table-8",
            "Pretraining text: abstracts, and full text with them",
            f"{GU}, Table 8",
            (
                Arm("PubMed", "pubmed"),
                Arm("PubMed + PMC", "pubmed-pmc"),
                Arm("PubMed + PMC, longer", "pubmed-pmc-longer"),
            ),
            _BLURB,
            _rows(
                (93.33, 93.36, 93.34),
                (85.62, 85.62, 85.76),
                (87.82, 88.34, 88.04),
                (84.52, 84.39, 84.37),
                (80.06, 79.63, 79.85),
                (73.38, 73.64, 73.72),
                (77.24, 76.96, 76.80),
                (82.36, 83.56, 82.06),
                (82.34, 82.24, 81.58),
                (92.30, 90.39, 92.31),
                (82.32, 82.16, 82.62),
                (55.84, 61.02, 60.02),
                (87.56, 83.43, 87.20),
                (81.10, 80.93, 81.45),
            ),
            score=True,
        ),
        Ablation(
            "pubmedbert-table-9",
            "Adversarial pretraining",
            f"{GU}, Table 9",
            (Arm("PubMedBERT", "standard"), Arm("+ adversarial", "adversarial")),
            _BLURB,
            _rows(
                (93.33, 93.17),
                (85.62, 85.48),
                (87.82, 87.99),
                (84.52, 84.07),
                (80.06, 79.83),
                (73.38, 72.92),
                (77.24, 77.04),
                (82.36, 83.62),
                (82.34, 81.48),
                (92.30, 94.11),
                (82.32, 82.20),
                (55.84, 53.30),
                (87.56, 82.71),
                (81.10, 80.68),
            ),
            score=True,
        ),
        Ablation(
            "pubmedbert-table-10",
            "A linear layer or a bidirectional LSTM",
            f"{GU}, Table 10",
            (Arm("linear layer", "standard"), Arm("Bi-LSTM", "standard", {"head": "bilstm"})),
            _NER_AND_RELATIONS,
            _rows(
                (93.33, 93.12),
                (85.62, 85.64),
                (80.06, 80.06),
                (77.24, 75.40),
                (82.36, 81.70),
                (82.34, 81.80),
                names=_NER_AND_RELATIONS,
            ),
        ),
        Ablation(
            "pubmedbert-table-11",
            "Tagging schemes",
            f"{GU}, Table 11",
            (
                Arm("BIO", "standard"),
                Arm("BIOUL", "standard", {"scheme": "BIOUL"}),
                Arm("IO", "standard", {"scheme": "IO"}),
            ),
            _NER_AND_RELATIONS[:3],
            _rows(
                (93.33, 93.37, 93.11),
                (85.62, 85.59, 85.63),
                (80.06, 79.98, 80.01),
                names=_NER_AND_RELATIONS[:3],
            ),
        ),
        Ablation(
            "pubmedbert-table-12",
            "Entities in the text, and how a relation is encoded",
            f"{GU}, Table 12",
            (
                Arm("dummies, [CLS]", "standard"),
                Arm("dummies, mention", "standard", {"text": "dummies", "features": "mentions"}),
                Arm("original, [CLS]", "standard", {"text": "original", "features": "pooled"}),
                Arm("original, mention", "standard", {"text": "original", "features": "mentions"}),
                Arm("markers, [CLS]", "standard", {"text": "markers", "features": "pooled"}),
                Arm("markers, mention", "standard", {"text": "markers", "features": "mentions"}),
                Arm("markers, entity start", "standard", {"text": "markers", "features": "starts"}),
            ),
            ("ChemProt", "DDI"),
            {
                "ChemProt": (77.24, 77.22, 50.52, 75.48, 77.72, 77.22, 77.58),
                "DDI": (82.36, 82.08, 37.00, 79.42, 82.22, 82.42, 82.18),
            },
            note="original text and markers need instances that keep their mentions; prepared files have dummies only",
        ),
        Ablation(
            "bioformer-figure-2",
            "Depth against width at one size",
            f"{FANG}, Figure 2",
            (Arm("base", "base"), Arm("fewer layers", "depth"), Arm("narrower", "width")),
            ("NCBI-disease", "SQuAD-v1.1"),
            note=(
                "each role may have several models; the paper draws CoNLL 2003 and SQuAD 1.1 on general models and "
                "prints no numbers"
            ),
        ),
        Ablation(
            "biomegatron-table-2",
            "Vocabulary and size on named entities and relations",
            f"{SHIN}, Table 2",
            (
                Arm("345m, Bio-30k", "345m-30k"),
                Arm("345m, Bio-50k", "345m-50k"),
                Arm("800m, BERT-cased", "800m-cased"),
                Arm("1.2b, BERT-uncased", "1.2b-uncased"),
            ),
            (*_MEGATRON, "ChemProt"),
            {
                "BC5-chem": (None, 92.5, None, None),
                "BC5-disease": (None, 88.5, None, None),
                "NCBI-disease": (None, 87.0, None, None),
                "ChemProt": (None, 77.0, None, None),
            },
            settings=_SUB_TOKENS,
            note=(
                "reported as quoted in Alrowili and Vijay-Shanker (2021), Table 2; sub-tokens are labelled, but for "
                "NCBI-disease whole words (section 5.1); its ChemProt is another preparation"
            ),
        ),
        Ablation(
            "biomegatron-labelling",
            "Labels on the first piece of a word, or on all",
            f"{SHIN}, section 5.1",
            (Arm("first piece", "standard"), Arm("all pieces", "standard", {"labelled": "all"})),
            _MEGATRON,
            note="the paper says that whole words are better on NCBI-disease, sub-tokens elsewhere, without figures",
        ),
        Ablation(
            "biomegatron-table-4",
            "How vocabularies break mentions of the training splits: pieces a word",
            f"{SHIN}, Table 4",
            (
                Arm("BERT", "general-vocabulary"),
                Arm("PubMedBERT", "pubmedbert-vocabulary"),
                Arm("Bio-30k", "345m-30k"),
                Arm("Bio-50k", "345m-50k"),
            ),
            _MEGATRON,
            kind="pieces",
        ),
        Ablation(
            "biomegatron-table-5",
            "BioASQ 7b factoid without SQuAD before it, by size",
            f"{SHIN}, Table 5",
            (Arm("345m", "345m"), Arm("800m", "800m"), Arm("1.2b", "1.2b")),
            ("BioASQ-factoid",),
            {"BioASQ-factoid": (33.1, 50.4, 39.8, 37.7, 56.3, 45.1, 40.6, 53.7, 45.6)},
            values=("strict_accuracy", "lenient_accuracy", "mean_reciprocal_rank"),
        ),
        Ablation(
            "biomegatron-table-7",
            "BioASQ 7b factoid with models of general text",
            f"{SHIN}, Table 7",
            (Arm("345m, general", "345m-general"), Arm("1.2b, general", "1.2b-general")),
            ("BioASQ-factoid",),
            {"BioASQ-factoid": (38.5, 52.6, 43.7, 29.3, 39.7, 32.7)},
            values=("strict_accuracy", "lenient_accuracy", "mean_reciprocal_rank"),
        ),
        Ablation(
            "biomegatron-table-8",
            "Biomedical models on general questions",
            f"{SHIN}, Table 8",
            (
                Arm("345m", "345m"),
                Arm("345m, continued", "345m-continued"),
                Arm("800m", "800m"),
                Arm("1.2b, continued", "1.2b-continued"),
            ),
            ("SQuAD-v1.1", "SQuAD-v2.0"),
            {"SQuAD-v1.1": (90.4, 86.5, 91.6, 91.8), "SQuAD-v2.0": (84.2, 77.9, 86.1, 86.4)},
            others={
                "BERT-large": {"SQuAD-v1.1": 90.9, "SQuAD-v2.0": 81.8},
                "RoBERTa": {"SQuAD-v1.1": 94.6, "SQuAD-v2.0": 89.4},
                "Megatron-3.9b": {"SQuAD-v1.1": 95.8, "SQuAD-v2.0": 91.2},
            },
        ),
        Ablation(
            "biomegatron-table-9",
            "Label bias of the training splits, in percent",
            f"{SHIN}, Table 9",
            (Arm("label bias", ""),),
            (
                "BC5-chem",
                "BC5-disease",
                "NCBI-disease",
                "ChemProt",
                "ChemProt-BLUE",
                "SQuAD-v1.1",
                "BioASQ-factoid",
            ),
            {"ChemProt-BLUE": (27.0,), "SQuAD-v1.1": (40.0,), "BioASQ-factoid": (2.0,)},
            kind="bias",
            others={"both types of BC5CDR": {"BC5-chem": 8.0, "BC5-disease": 8.0}},
            note="no model is needed; the paper counts both types of BC5CDR together",
        ),
    )
}
