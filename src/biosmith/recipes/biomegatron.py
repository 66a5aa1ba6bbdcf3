"""BioMegatron (Shin et al., 2020): three sizes of Megatron's BERT, and two vocabularies of the domain.

The paper gives sizes, vocabularies, corpus and objectives' origin, but neither batch nor learning rate: it trains as
Megatron-LM (Shoeybi et al., 2019) trains its BERT, and so do these recipes. It says, too, that its models saw the corpus
about once (section 5.5), which at the batch of Megatron-LM is some 17,000 steps; the number of steps here is that of
Megatron-LM's schedule, and of Table 6 for the model that goes on from a general one.
"""

from __future__ import annotations

import dataclasses

from biosmith.models.megatron import MegatronConfig
from biosmith.pretraining.config import (
    AdamW,
    Batch,
    CorpusFilter,
    Linear,
    MaskedLanguageModel,
    Recipe,
    SentenceOrderPrediction,
    Vocabulary,
)

PAPER = "Shin et al. (2020), BioMegatron: Larger Biomedical Domain Language Model"

_BERT = "Megatron-LM (Shoeybi et al., 2019), section 4.1"
_CODE = "NVIDIA/Megatron-LM"
_CITATIONS = {
    "corpus.sources": "section 3: 4.5 billion words of PubMed abstracts, 1.6 billion of PMC's commercial-use collection",
    "vocabulary": "section 3: the uncased vocabulary of BERT; a cased one and the two of the domain are trained as well",
    "vocabulary.size": "the released vocab.txt of BERT",
    "model": "Table 1",
    "model.vocabulary_multiple": f"{_CODE}, make_vocab_size_divisible_by: 128; released models have 30,592 rows",
    "model.feed_forward": f"{_CODE}, ffn_hidden_size: four times the width",
    "model.positions": f"{_CODE}, examples/pretrain_bert.sh: 512",
    "model.dropout": f"{_CODE}, hidden_dropout: 0.1",
    "model.attention_dropout": f"{_CODE}, attention_dropout: 0.1",
    "model.layer_norm_epsilon": f"{_CODE}, layernorm_epsilon: 1e-5",
    "model.activation": f"{_CODE}, bias_gelu_fusion: the tanh form",
    "model.initializer_range": f"{_BERT}: N(0, 0.02), before residual layers divided by sqrt(2 N)",
    "objectives.masked_language_model": f"{_BERT}: whole-word n-gram masking, 15 %",
    "objectives.masked_language_model.longest_ngram": f"{_CODE}, max_ngrams: 3, in proportion to 1 / n",
    "objectives.masked_language_model.replace": "as BERT: 80/10/10",
    "objectives.sentence_order_prediction": f"{_BERT}: sentence order instead of the next sentence",
    "optimizer": f"{_BERT}: Adam, 1e-4, decay 0.01, gradient norm 1.0",
    "optimizer.betas": f"{_CODE}, adam_beta1, adam_beta2: 0.9, 0.999",
    "optimizer.epsilon": f"{_CODE}, adam_eps: 1e-8",
    "optimizer.bias_correction": f"{_CODE}: FusedAdam of apex corrects",
    "schedule": f"{_BERT}: warm-up over 10,000 steps, linear decay over 2,000,000",
    "batch.tokens": f"{_BERT}: 1,024 sequences",
    "batch.length": f"{_CODE}, examples/pretrain_bert.sh: 512",
    "batch.short_sequence_probability": f"{_CODE}, short_seq_prob: 0.1",
    "steps": f"{_BERT}: 2,000,000; the paper stops after about one epoch (section 5.5): --override steps=17000",
}


def biomegatron_345m() -> Recipe:
    """24 layers, 1,024 wide, 16 heads (Table 1), from scratch with BERT's uncased vocabulary."""
    return Recipe(
        name="biomegatron-345m",
        paper=PAPER,
        corpus=CorpusFilter(sources=("PubMed abstracts", "PMC full texts, commercial-use collection")),
        vocabulary=Vocabulary(kind="wordpiece", size=30_522, cased=False),
        model=MegatronConfig(
            vocabulary_size=30_522,
            layers=24,  # Table 1
            width=1_024,  # Table 1
            heads=16,  # Table 1
            feed_forward=4_096,
            positions=512,
            layer_norm_epsilon=1e-5,
            activation="gelu_new",
            initializer_range=0.02,
        ),
        objectives=(
            MaskedLanguageModel(rate=0.15, unit="ngram", longest_ngram=3, replace=(0.8, 0.1, 0.1)),
            SentenceOrderPrediction(swap_probability=0.5),
        ),
        optimizer=AdamW(
            learning_rate=1e-4,
            betas=(0.9, 0.999),
            epsilon=1e-8,
            weight_decay=0.01,
            bias_correction=True,
            clip_norm=1.0,
        ),
        schedule=Linear(warmup=0.005, mode="triangle"),  # 10,000 of 2,000,000 steps
        batch=Batch(tokens=1_024 * 512, length=512),
        steps=2_000_000,
        citations=_CITATIONS,
    )


def biomegatron_345m_bio_30k() -> Recipe:
    """The smallest size with 30,000 SentencePiece units learnt on PubMed (section 3)."""
    return _with_bio_vocabulary("biomegatron-345m-bio-30k", 30_000)


def biomegatron_345m_bio_50k() -> Recipe:
    """The smallest size with 50,000 SentencePiece units learnt on PubMed (section 3)."""
    return _with_bio_vocabulary("biomegatron-345m-bio-50k", 50_000)


def biomegatron_800m() -> Recipe:
    """36 layers, 1,280 wide, 20 heads (Table 1), from scratch with BERT's uncased vocabulary."""
    base = biomegatron_345m()
    return dataclasses.replace(
        base,
        name="biomegatron-800m",
        model=dataclasses.replace(base.model, layers=36, width=1_280, heads=20, feed_forward=5_120),
    )


def biomegatron_1_2b() -> Recipe:
    """24 layers, 2,048 wide, 16 heads (Table 1); the paper goes on from a general-domain model (`pretrain --init`)."""
    base = biomegatron_345m()
    return dataclasses.replace(
        base,
        name="biomegatron-1.2b",
        model=dataclasses.replace(base.model, layers=24, width=2_048, heads=16, feed_forward=8_192),
        schedule=Linear(warmup_steps=10_000, mode="triangle"),
        steps=500_000,
        citations={
            **_CITATIONS,
            "schedule": f"{_BERT}: warm-up over 10,000 steps, linear decay, here to the last step of Table 6",
            "steps": "Table 6: 500,000 steps from the general-domain model, the best scores at 200,000 to 400,000",
        },
    )


def _with_bio_vocabulary(name: str, size: int) -> Recipe:
    base = biomegatron_345m()
    return dataclasses.replace(
        base,
        name=name,
        vocabulary=Vocabulary(kind="sentencepiece", size=size, cased=False),
        model=dataclasses.replace(base.model, vocabulary_size=size),
        citations={
            **_CITATIONS,
            "vocabulary": "section 3: SentencePiece on PubMed; the released models have a cased and an uncased one",
            "vocabulary.size": f"section 3: {size // 1_000}k units",
        },
    )
