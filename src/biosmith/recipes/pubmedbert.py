"""PubMedBERT (Gu et al., 2021): BERT-base from scratch on PubMed abstracts, with a vocabulary of its own."""

from __future__ import annotations

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

PAPER = (
    "Gu et al. (2021), Domain-Specific Language Model Pretraining for Biomedical Natural Language Processing"
)


def pubmedbert() -> Recipe:
    """62,500 steps of 8,192 sequences; every number is section 6.1 unless a comment says otherwise."""
    return Recipe(
        name="pubmedbert",
        paper=PAPER,
        corpus=CorpusFilter(sources=("PubMed abstracts",), min_words=128),
        vocabulary=Vocabulary(
            kind="wordpiece", size=30_522, cased=False
        ),  # Table 5; size: Bioformer, Table 1
        model=BertConfig(layers=12, width=768, heads=12, feed_forward=3_072),
        objectives=(
            MaskedLanguageModel(rate=0.15, unit="word", replace=(0.8, 0.1, 0.1)),  # 6.1; replacement 2.3
            NextSentencePrediction(random_probability=0.5),  # 2.3
        ),
        optimizer=AdamW(learning_rate=6e-4, weight_decay=0.01),
        schedule=Linear(warmup=0.10, mode="triangle"),
        batch=Batch(tokens=8_192 * 512, length=512),
        steps=62_500,
        citations={
            "corpus.sources": "section 6.1: 14 million abstracts, 3.2 billion words, 21 GB",
            "corpus.min_words": "section 6.1: abstracts under 128 words are left out",
            "vocabulary": "section 6.1: from PubMed, uncased",
            "vocabulary.size": "Bioformer (Fang et al., 2023), Table 1: 30,522",
            "model": "section 6.1: BERT-base; Bioformer, Table 1: 110M parameters",
            "model.activation": "the published configuration names the exact form",
            "objectives.masked_language_model": "section 6.1: whole words, 15 %; section 2.3: 80/10/10",
            "objectives.next_sentence_prediction": "section 2.3: kept for comparison with earlier models",
            "optimizer.learning_rate": "section 6.1: 6e-4 at the peak",
            "optimizer": "section 6.1: Adam; decay, epsilon and clipping as in the original BERT code",
            "schedule": "section 6.1: slanted triangle, 10 % of the steps up, 90 % down to zero",
            "batch.tokens": "section 6.1: 8,192 sequences",
            "batch.length": "Bioformer, Table 1: 512",
            "steps": "section 6.1: 62,500",
        },
    )
