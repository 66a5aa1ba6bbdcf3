"""Bioformer (Fang et al., 2023): two compact cased models with 40 % of BERT-base's parameters."""

from __future__ import annotations

import dataclasses

from biosmith.models.bert import BertConfig
from biosmith.pretraining.config import (
    AdamW,
    Batch,
    CorpusFilter,
    Linear,
    MaskedLanguageModel,
    NextSentencePrediction,
    Recipe,
    Vocabulary,
)

PAPER = "Fang et al. (2023), Bioformer: an efficient transformer language model for biomedical text mining"

_CITATIONS = {
    "corpus.sources": "Methods, Vocabulary of Bioformer: 33 million abstracts (Feb 1, 2021), 1 million full texts",
    "vocabulary": "Methods, Vocabulary of Bioformer: cased WordPiece; Table 1: 32,768",
    "model.dropout": "the published configuration: 0.1",
    "model.activation": "the published configuration names the exact form",
    "objectives.masked_language_model": "Methods, Pretraining Bioformer: whole words, 15 %; 80/10/10 as BERT",
    "objectives.masked_language_model.copies": "Methods, Pretraining Bioformer: masked in 20 different ways",
    "objectives.next_sentence_prediction": "Methods, Pretraining Bioformer: included",
    "optimizer": "not stated; the original BERT code and its learning rate of 1e-4",
    "schedule": "not stated; the original BERT code: 10,000 steps of warm-up, which replace the decay",
    "batch.tokens": "Table 1: 256 sequences",
    "steps": "Table 1: 2M",
}


def bioformer_8l() -> Recipe:
    """Eight layers, 512 wide: two million steps of 256 sequences of 512 tokens (Table 1, Figure 1)."""
    return Recipe(
        name="bioformer-8l",
        paper=PAPER,
        corpus=CorpusFilter(sources=("PubMed abstracts", "one million PMC full texts")),
        vocabulary=Vocabulary(kind="wordpiece", size=32_768, cased=True),  # Table 1
        model=BertConfig(vocabulary_size=32_768, layers=8, width=512, heads=8, feed_forward=2_048),  # Table 1
        objectives=(
            MaskedLanguageModel(rate=0.15, unit="word", replace=(0.8, 0.1, 0.1), copies=20),
            NextSentencePrediction(random_probability=0.5),
        ),
        optimizer=AdamW(learning_rate=1e-4, betas=(0.9, 0.999), weight_decay=0.01),
        schedule=Linear(warmup=0.005, mode="replaces"),  # 10,000 of 2,000,000 steps
        batch=Batch(tokens=256 * 512, length=512),  # Table 1, Figure 1
        steps=2_000_000,  # Table 1
        citations={
            **_CITATIONS,
            "model": "Table 1: L=8, H=512, A=8, 43M parameters; feed-forward width: four times H",
            "batch.length": "Figure 1: 512",
        },
    )


def bioformer_16l() -> Recipe:
    """Sixteen layers, 384 wide, up to 1,024 tokens; otherwise as the 8-layer model (Table 1)."""
    base = bioformer_8l()
    return dataclasses.replace(
        base,
        name="bioformer-16l",
        model=dataclasses.replace(
            base.model, layers=16, width=384, heads=6, feed_forward=1_536, positions=1_024
        ),  # Table 1
        batch=Batch(tokens=256 * 1_024, length=1_024),  # Table 1
        citations={
            **_CITATIONS,
            "model": "Table 1: L=16, H=384, A=6, 42M parameters (the text's H=1024 is the number of positions)",
            "model.positions": "Table 1: 1,024",
            "batch.length": "Table 1: input of 1,024 tokens; Figure 1 says 512 without naming the model",
        },
    )
