"""ALBERT (Lan et al., 2020): shared layers and narrow embeddings, what BioM-ALBERT follows."""

from __future__ import annotations

from biosmith.models.albert import AlbertConfig
from biosmith.pretraining.config import (
    Batch,
    CorpusFilter,
    Lamb,
    Linear,
    MaskedLanguageModel,
    Recipe,
    SentenceOrderPrediction,
    Vocabulary,
)

PAPER = "Lan et al. (2020), ALBERT: A Lite BERT for Self-supervised Learning of Language Representations"

_CODE = "google-research/albert"

CITATIONS = {
    "vocabulary": "section 4.1: 30,000 pieces by SentencePiece",
    "model.embedding_width": "Table 1: 128",
    "model.groups": "section 3.1: all parameters are shared across layers",
    "model.activation": f"{_CODE}, modeling.py: the tanh form, which the export names gelu_new",
    "objectives.masked_language_model": "section 4.1: n-gram masking; 15 % and 80/10/10 as BERT",
    "objectives.masked_language_model.longest_ngram": "section 4.1: up to 3 words, with probabilities in proportion to 1 / n",
    "objectives.masked_language_model.copies": f"{_CODE}, create_pretraining_data.py: dupe_factor 40",
    "objectives.sentence_order_prediction": "section 3.1: two segments of one text, half of them exchanged",
    "optimizer": f"section 4.1: LAMB; {_CODE}, lamb_optimizer.py: betas 0.9 and 0.999, epsilon 1e-6, decay 0.01",
    "optimizer.bias_correction": f"{_CODE}, lamb_optimizer.py: none; LayerNorm and biases neither decayed nor scaled",
    "optimizer.clip_norm": f"{_CODE}, optimization.py: 1.0",
    "schedule": f"{_CODE}, README: 3,125 steps of warm-up; optimization.py: the warm-up replaces the linear decay",
    "batch.length": "section 4.1: 512",
    "batch.short_sequence_probability": "section 4.1: 10 % of the sequences are shorter",
}


def masked_language_model() -> MaskedLanguageModel:
    """n-grams of one to three whole words."""
    return MaskedLanguageModel(rate=0.15, unit="ngram", longest_ngram=3, replace=(0.8, 0.1, 0.1), copies=40)


def albert_base() -> Recipe:
    """12 times one layer, 768 wide: 125,000 steps of 4,096 sequences of 512 tokens (section 4.1)."""
    return Recipe(
        name="albert-base",
        paper=PAPER,
        corpus=CorpusFilter(sources=("BooksCorpus", "English Wikipedia")),  # section 4.1
        vocabulary=Vocabulary(kind="sentencepiece", size=30_000, cased=False),  # section 4.1
        model=AlbertConfig(
            vocabulary_size=30_000,
            embedding_width=128,
            layers=12,
            groups=1,
            width=768,
            heads=12,
            feed_forward=3_072,
            dropout=0.1,
            attention_dropout=0.1,
        ),  # Table 1
        objectives=(masked_language_model(), SentenceOrderPrediction(swap_probability=0.5)),
        optimizer=Lamb(learning_rate=1.76e-3, betas=(0.9, 0.999), epsilon=1e-6, weight_decay=0.01),
        schedule=Linear(warmup_steps=3_125, mode="replaces"),
        batch=Batch(tokens=4_096 * 512, length=512),
        steps=125_000,
        citations={
            **CITATIONS,
            "corpus.sources": "section 4.1: 16 GB",
            "model": "Table 1: L=12, H=768, embeddings of 128, 12M parameters; heads 64 wide",
            "model.dropout": "as BERT: 0.1; the paper leaves it out of its largest model only (section 4.8)",
            "model.initializer_range": f"{_CODE}, modeling.py: 0.02",
            "optimizer.learning_rate": "section 4.1: 1.76e-3",
            "batch.tokens": "section 4.1: 4,096 sequences",
            "steps": "section 4.1: 125,000",
        },
    )
