"""Beyond the papers: ModernBERT's architecture (Warner et al., 2024) with a biomedical vocabulary, in two sizes."""

from __future__ import annotations

import dataclasses

from biosmith.models.modern import ModernConfig
from biosmith.pretraining.config import (
    AdamW,
    Batch,
    CorpusFilter,
    MaskedLanguageModel,
    Recipe,
    Vocabulary,
    WarmupStableDecay,
)

PAPER = (
    "none; after Warner et al. (2024), Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for Fast, "
    "Memory Efficient, and Long Context Finetuning and Inference (ModernBERT)"
)

_CITATIONS = {
    "corpus.sources": "ours: as Bioformer",
    "vocabulary": "ours: that of Bioformer (Fang et al., 2023), Table 1: 32,768, cased",
    "model.global_every": "ModernBERT, section 2.1: attention is global in every third layer",
    "model.local_attention": "ModernBERT, section 2.1: 128 tokens",
    "model.global_theta": "ModernBERT, section 2.2: 10,000 at 1,024 tokens; 160,000 only once the context is lengthened",
    "model.local_theta": "ModernBERT, section 2.1: 10,000",
    "model.dropout": "the published configuration: none",
    "model.initializer_range": "answerdotai/ModernBERT: Megatron initialisation, 0.02",
    "objectives.masked_language_model.rate": "ModernBERT, section 2.2: 30 %",
    "objectives.masked_language_model.final_rate": "a falling rate: Ankner et al. (2024), Dynamic Masking Rate Schedules",
    "objectives.masked_language_model.unit": "ours: whole words, as in PubMedBERT (Gu et al., 2021), section 6.1",
    "objectives.masked_language_model.replace": "as BERT; ModernBERT: no next-sentence prediction",
    "optimizer": "ModernBERT, Table 3: 8e-4, betas 0.9 and 0.98, epsilon 1e-6, decay 1e-5",
    "optimizer.clip_norm": "ours: the global norm at 1.0, where ModernBERT's StableAdamW clips each update",
    "schedule": "ModernBERT, section 2.2: warm-up, stable rate, decay by 1 - sqrt; 3 billion tokens of warm-up",
    "schedule.decay": "ours: a tenth of the run (Haegele et al., 2024, Scaling Laws and Compute-Optimal Training)",
    "batch.length": "ModernBERT, section 2.2: 1,024 until the context is lengthened",
}


def modern_base() -> Recipe:
    """ModernBERT-base's shape: 50,000 steps of 4,608 sequences of 1,024 tokens, about what PubMedBERT saw."""
    return Recipe(
        name="modern-base",
        paper=PAPER,
        corpus=CorpusFilter(sources=("PubMed abstracts", "PMC full texts")),
        vocabulary=Vocabulary(kind="wordpiece", size=32_768, cased=True),
        model=ModernConfig(
            vocabulary_size=32_768,
            layers=22,
            width=768,
            heads=12,
            feed_forward=1_152,
            positions=1_024,
            global_theta=10_000.0,
        ),
        objectives=(MaskedLanguageModel(rate=0.30, final_rate=0.15, unit="word", replace=(0.8, 0.1, 0.1)),),
        optimizer=AdamW(
            learning_rate=8e-4, betas=(0.9, 0.98), epsilon=1e-6, weight_decay=1e-5, bias_correction=True
        ),
        # 0.0127 of 236 billion tokens are 3 billion.
        schedule=WarmupStableDecay(warmup=0.0127, decay=0.1, shape="sqrt"),
        batch=Batch(tokens=4_608 * 1_024, length=1_024),
        steps=50_000,
        citations={
            **_CITATIONS,
            "model": "ModernBERT, section 2.1: 149M parameters with its own vocabulary; 22 layers, 768 wide, 1,152 behind the gate",
            "batch.tokens": "ModernBERT, Table 3: 4,608 sequences",
            "steps": "ours: 236 billion tokens; PubMedBERT, section 6.1, saw 262 billion",
        },
    )


def modern_small() -> Recipe:
    """As many parameters as Bioformer-8L and as many tokens in sight (262 billion)."""
    base = modern_base()
    return dataclasses.replace(
        base,
        name="modern-small",
        model=dataclasses.replace(base.model, layers=12, width=512, heads=8, feed_forward=704),
        # 0.0114 of 262 billion tokens are 3 billion.
        schedule=WarmupStableDecay(warmup=0.0114, decay=0.1, shape="sqrt"),
        batch=Batch(tokens=1_024 * 1_024, length=1_024),
        steps=250_000,
        citations={
            **_CITATIONS,
            "model": "ours: 43M parameters as Bioformer-8L, 512 wide as it is, half as deep again",
            "batch.tokens": "ours: a million tokens, for a model of this size",
            "steps": "ours: 262 billion tokens, as Bioformer-8L",
        },
    )
