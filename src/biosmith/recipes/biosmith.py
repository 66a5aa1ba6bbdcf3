"""The project's own recipes, on open text that fits one machine, trained in minutes: a small one in Bioformer-8L's shape (with `--init` in
that of the model to go on from, as the encoder that comes with the sources: docs/models.md), and a tiny one."""

from __future__ import annotations

from dataclasses import replace

from biosmith.models.bert import BertConfig
from biosmith.pretraining.config import (
    AdamW,
    Batch,
    CorpusFilter,
    Evaluation,
    Linear,
    MaskedLanguageModel,
    Recipe,
    Vocabulary,
)


def biosmith_base_small() -> Recipe:
    """Eight layers, 512 wide: 17,000 steps of 128 sequences of 512 tokens, 1.1 billion tokens."""
    return Recipe(
        name="biosmith-base-small",
        paper="none; the shape is that of Bioformer-8L (Fang et al., 2023)",
        corpus=CorpusFilter(sources=("open abstracts", "open full texts", "open textbooks")),
        vocabulary=Vocabulary(kind="wordpiece", size=30_522, cased=False),
        model=BertConfig(vocabulary_size=30_522, layers=8, width=512, heads=8, feed_forward=2_048),
        objectives=(MaskedLanguageModel(rate=0.30, final_rate=0.15, unit="word", replace=(0.8, 0.1, 0.1)),),
        optimizer=AdamW(
            learning_rate=5e-4, betas=(0.9, 0.98), epsilon=1e-6, weight_decay=0.01, bias_correction=True
        ),
        schedule=Linear(warmup=0.1, mode="triangle"),
        batch=Batch(tokens=128 * 512, length=512),
        initial_positions="sinusoidal",
        steps=17_000,
        evaluation=Evaluation(every=2_000, documents=500),
        checkpoint_every=2_000,
        citations={
            "vocabulary": "PubMedBERT (Gu et al., 2021), section 6.1: in-domain, uncased, of BERT's size",
            "model": "Bioformer, Table 1: L=8, H=512, A=8",
            "objectives.masked_language_model.rate": "Wettig et al. (2023), Should You Mask 15%: more for small budgets",
            "objectives.masked_language_model.final_rate": "a falling rate: Ankner et al. (2024), Dynamic Masking Rate Schedules",
            "objectives.masked_language_model.unit": "PubMedBERT, section 6.1: whole words",
            "optimizer.betas": "RoBERTa (Liu et al., 2019), section 3.1: 0.98 for large batches",
            "optimizer.learning_rate": "ours; a long warm-up takes the post-LN encoder past the unigram plateau",
            "initial_positions": "ours: short runs leave the unigram plateau sooner (benchmarks/results/initial_positions.json)",
            "batch.tokens": "ours: many small steps, for the tokens are few",
        },
    )


def biosmith_tiny() -> Recipe:
    """Two layers, 128 wide, for processors and tests: 6,000 steps of 256 sequences of 512 tokens, 786 million tokens."""
    base = biosmith_base_small()
    return replace(
        base,
        name="biosmith-tiny",
        paper="none; the shape is that of BERT-Tiny (Turc et al., 2019)",
        model=BertConfig(vocabulary_size=30_522, layers=2, width=128, heads=2, feed_forward=512),
        optimizer=replace(base.optimizer, learning_rate=2e-3),
        batch=Batch(tokens=256 * 512, length=512),
        steps=6_000,
        citations={
            **base.citations,
            "model": "Turc et al. (2019), Well-Read Students Learn Better, Table 1: L=2, H=128",
            "optimizer.learning_rate": "ours; no other was tried",
            "batch.tokens": "ours; no other was tried",
        },
    )
