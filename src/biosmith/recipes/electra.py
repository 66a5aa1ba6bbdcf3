"""ELECTRA (Clark et al., 2020) in two sizes: what BioM-ELECTRA follows."""

from __future__ import annotations

import dataclasses

from biosmith.models.electra import ElectraConfig
from biosmith.pretraining.config import (
    AdamW,
    Batch,
    CorpusFilter,
    Linear,
    MaskedLanguageModel,
    Recipe,
    ReplacedTokenDetection,
    Vocabulary,
)

PAPER = "Clark et al. (2020), ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators"

_CODE = "google-research/electra"
# The generator's width in ELECTRA-base: the code's approximation of a third (768 * 0.33333 rounds to 256).
THIRD = 0.33333

CITATIONS = {
    "model.dropout": "Table 6: 0.1 on layers and attention",
    "model.activation": f"{_CODE}, modeling.py: the exact form (erf)",
    "model.initializer_range": f"{_CODE}, modeling.py: truncated normal 0.02",
    "objectives.masked_language_model": "section 3.1: 15 %",
    "objectives.masked_language_model.unit": f"{_CODE}, pretrain_helpers.py: single pieces",
    "objectives.masked_language_model.replace": f"{_CODE}, pretrain_helpers.py: 85 % [MASK], 15 % kept, none random",
    "objectives.masked_language_model.draw": f"{_CODE}, pretrain_helpers.py: drawn with replacement, so 13.9 % are hit",
    "objectives.masked_language_model.weight": f"{_CODE}, configure_pretraining.py: gen_weight 1",
    "objectives.replaced_token_detection.generator_layers": f"{_CODE}, configure_pretraining.py: all layers",
    "objectives.replaced_token_detection.temperature": f"{_CODE}, configure_pretraining.py: 1",
    "objectives.replaced_token_detection.weight": "section 2: lambda 50",
    "optimizer": "Table 6: Adam, betas 0.9 and 0.999, epsilon 1e-6, decay 0.01",
    "optimizer.bias_correction": f"{_CODE}, model/optimization.py: none",
    "optimizer.clip_norm": f"{_CODE}, model/optimization.py: 1.0",
    "schedule": f"Table 6: 10,000 steps of warm-up, linear decay; {_CODE}, model/optimization.py: the two are multiplied",
    "batch.short_sequence_probability": f"{_CODE}, build_pretraining_dataset.py: 0.05",
    "batch.second_segment_probability": f"{_CODE}, build_pretraining_dataset.py: nine in ten sequences have two segments",
}


def masked_language_model(rate: float) -> MaskedLanguageModel:
    """Masks as the original code draws them."""
    return MaskedLanguageModel(
        rate=rate, unit="token", replace=(0.85, 0.0, 0.15), draw="with_replacement", weight=1.0
    )


def sequences(count: int, length: int) -> Batch:
    """A batch of so many sequences, cut as the original code cuts them."""
    return Batch(
        tokens=count * length,
        length=length,
        short_sequence_probability=0.05,
        second_segment_probability=0.9,
    )


def electra_small() -> Recipe:
    """12 layers, 256 wide, embeddings of 128: one million steps of 128 sequences of 128 tokens (Table 6)."""
    return Recipe(
        name="electra-small",
        paper=PAPER,
        corpus=CorpusFilter(sources=("BooksCorpus", "English Wikipedia")),  # section 3.1
        vocabulary=Vocabulary(kind="wordpiece", size=30_522, cased=False),  # that of BERT
        model=ElectraConfig(
            embedding_width=128, layers=12, width=256, heads=4, feed_forward=1_024
        ),  # Table 6
        objectives=(
            masked_language_model(0.15),
            ReplacedTokenDetection(generator_width=0.25, generator_layers=1.0, weight=50.0),  # Table 6
        ),
        optimizer=AdamW(learning_rate=5e-4, betas=(0.9, 0.999), epsilon=1e-6, weight_decay=0.01),  # Table 6
        schedule=Linear(warmup_steps=10_000, mode="multiplies"),  # Table 6
        batch=sequences(128, 128),  # Table 6; section 3.3: length 128
        steps=1_000_000,  # Table 6
        citations={
            **CITATIONS,
            "corpus.sources": "section 3.1: the data of BERT",
            "vocabulary.size": "section 3.1: that of BERT",
            "model": "Table 6: L=12, H=256, A=4, embeddings of 128, 14M parameters",
            "objectives.replaced_token_detection.generator_width": "Table 6: a quarter",
            "optimizer.learning_rate": "Table 6: 5e-4",
            "batch.tokens": "Table 6: 128 sequences",
            "batch.length": "section 3.3: 128",
            "steps": "Table 6: 1M",
        },
    )


def electra_base() -> Recipe:
    """BERT-base's shape: 256 sequences of 512 tokens a step (Table 6)."""
    small = electra_small()
    return dataclasses.replace(
        small,
        name="electra-base",
        model=ElectraConfig(embedding_width=768, layers=12, width=768, heads=12, feed_forward=3_072),
        objectives=(
            masked_language_model(0.15),
            ReplacedTokenDetection(generator_width=THIRD, generator_layers=1.0, weight=50.0),
        ),
        optimizer=dataclasses.replace(small.optimizer, learning_rate=2e-4),
        batch=sequences(256, 512),
        steps=1_000_000,
        citations={
            **small.citations,
            "model": "Table 6: L=12, H=768, A=12, embeddings of 768, 110M parameters",
            "objectives.replaced_token_detection.generator_width": f"Table 6: a third; {_CODE}: 0.33333, 256 wide",
            "optimizer.learning_rate": "Table 6: 2e-4",
            "batch.tokens": "Table 6: 256 sequences",
            "batch.length": f"{_CODE}, configure_pretraining.py: 512",
            "steps": (
                f"{_CODE}, configure_pretraining.py: 1M, as BioM-Transformers (2021), section 3.2, has it; Table 6 says 766K"
            ),
        },
    )
