"""BERT (Devlin et al., 2019): the general-domain model that everything here descends from."""

from __future__ import annotations

from biosmith.models.bert import BertConfig
from biosmith.pretraining.config import (
    AdamW,
    Batch,
    CorpusFilter,
    LengthPhase,
    Linear,
    MaskedLanguageModel,
    NextSentencePrediction,
    Recipe,
    Vocabulary,
)

PAPER = (
    "Devlin et al. (2019), BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding"
)


def bert_base() -> Recipe:
    """One million steps of 256 sequences, 90 % of them at 128 tokens (Appendix A.2)."""
    return Recipe(
        name="bert-base",
        paper=PAPER,
        corpus=CorpusFilter(sources=("BooksCorpus", "English Wikipedia")),  # section 3.1
        vocabulary=Vocabulary(
            kind="wordpiece", size=30_522, cased=False
        ),  # section 3; size: released vocab.txt
        model=BertConfig(layers=12, width=768, heads=12, feed_forward=3_072),  # section 3
        objectives=(
            MaskedLanguageModel(rate=0.15, unit="token", replace=(0.8, 0.1, 0.1), copies=10),  # A.1
            NextSentencePrediction(random_probability=0.5),  # A.1
        ),
        optimizer=AdamW(learning_rate=1e-4, betas=(0.9, 0.999), weight_decay=0.01),  # A.2
        schedule=Linear(warmup=0.01, mode="replaces"),  # A.2: 10,000 of 1,000,000 steps
        batch=Batch(
            tokens=256 * 512, length=512, phases=(LengthPhase(until=0.9, length=128, keep="sequences"),)
        ),  # A.2
        steps=1_000_000,  # A.2
        citations={
            "corpus.sources": "section 3.1",
            "vocabulary.size": "the released vocab.txt; section 3 says 30,000",
            "model": "section 3: L=12, H=768, A=12, 110M parameters",
            "model.dropout": "A.2: 0.1 on all layers",
            "model.activation": "A.2: GELU; the published configuration names the exact form, the code has the tanh form",
            "model.initializer_range": "google-research/bert, modeling.py: truncated normal 0.02",
            "objectives.masked_language_model": "A.1: 15 %, 80/10/10; single pieces, not whole words",
            "objectives.masked_language_model.copies": "google-research/bert, create_pretraining_data.py: dupe_factor 10",
            "objectives.next_sentence_prediction": "A.1: half the second segments are random",
            "optimizer": "A.2: Adam, 1e-4, betas 0.9 and 0.999, decay 0.01",
            "optimizer.bias_correction": "google-research/bert, optimization.py: none",
            "optimizer.epsilon": "google-research/bert, optimization.py: 1e-6",
            "optimizer.clip_norm": "google-research/bert, optimization.py: 1.0",
            "schedule": "A.2: warm-up over 10,000 steps, linear decay; optimization.py: the warm-up replaces the decay",
            "batch": "A.2: 256 sequences of 512 tokens (128,000 tokens a step); 90 % of the steps at length 128",
            "batch.short_sequence_probability": "google-research/bert, create_pretraining_data.py: 0.1",
            "steps": "A.2: 1,000,000",
        },
    )
