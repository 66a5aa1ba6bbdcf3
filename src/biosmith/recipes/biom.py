"""BioM-Transformers (Alrowili and Vijay-Shanker, 2021): ELECTRA, ALBERT and BERT for biomedicine.

The authors named them BioM-ELECTRA, BioM-ALBERT and BioM-BERT. The paper gives sizes, batches, steps and what differs
from the originals; all else is that of the originals' own code.
"""

from __future__ import annotations

import dataclasses

from biosmith.models.albert import AlbertConfig
from biosmith.models.bert import BertConfig
from biosmith.models.electra import ElectraConfig
from biosmith.pretraining.config import (
    Batch,
    CorpusFilter,
    Lamb,
    LengthPhase,
    Linear,
    Recipe,
    ReplacedTokenDetection,
    SentenceOrderPrediction,
    Vocabulary,
)
from biosmith.recipes import albert, electra

PAPER = (
    "Alrowili and Vijay-Shanker (2021), BioM-Transformers: Building Large Biomedical Language Models with BERT, ALBERT "
    "and ELECTRA"
)

_ELECTRA = "google-research/electra, configure_pretraining.py"
_PUBMED = CorpusFilter(sources=("PubMed abstracts",))
_BOTH = CorpusFilter(sources=("PubMed abstracts", "PMC full texts"))


def biom_electra_base() -> Recipe:
    """ELECTRA-base on PubMed with PubMedBERT's vocabulary: 500,000 steps of 1,024 sequences (section 3.2)."""
    base = electra.electra_base()
    return dataclasses.replace(
        base,
        name="biom-electra-base",
        paper=PAPER,
        corpus=_PUBMED,
        vocabulary=Vocabulary(kind="wordpiece", size=28_895, cased=False),
        model=dataclasses.replace(base.model, vocabulary_size=28_895),
        batch=electra.sequences(1_024, 512),
        steps=500_000,
        citations={
            **base.citations,
            "corpus.sources": "section 3.2: PubMed abstracts only",
            "vocabulary": "section 3.2: that of PubMedBERT",
            "vocabulary.size": "section 3.2: 28,895",
            "model": f"section 3.2: that of ELECTRA-base; {_ELECTRA}: L=12, H=768, A=12",
            "optimizer.learning_rate": "section 3.2: as Clark et al. (2020), Table 6: 2e-4",
            "batch.tokens": "section 3.2 and Table 1: 1,024 sequences",
            "steps": "section 3.2 and Table 1: 500K",
        },
    )


def biom_electra_large() -> Recipe:
    """ELECTRA-large on PubMed: 434,000 steps of 4,096 sequences (section 3.2)."""
    base = biom_electra_base()
    return dataclasses.replace(
        base,
        name="biom-electra-large",
        model=ElectraConfig(
            vocabulary_size=28_895,
            embedding_width=1_024,
            layers=24,
            width=1_024,
            heads=16,
            feed_forward=4_096,
        ),
        objectives=(
            electra.masked_language_model(0.25),
            ReplacedTokenDetection(generator_width=0.25, generator_layers=1.0, weight=50.0),
        ),
        batch=electra.sequences(4_096, 512),
        steps=434_000,
        citations={
            **base.citations,
            "model": f"section 3.2: that of ELECTRA-large; {_ELECTRA}: L=24, H=1024, A=16",
            "objectives.masked_language_model": f"{_ELECTRA}: 25 % in large models (Clark et al., Table 6)",
            "objectives.masked_language_model.draw": "google-research/electra, pretrain_helpers.py: with replacement",
            "objectives.replaced_token_detection.generator_width": f"{_ELECTRA}: a quarter",
            "batch.tokens": "section 3.2 and Table 1: 4,096 sequences",
            "steps": "section 3.2 and Table 1: 434K",
        },
    )


def biom_bert_large() -> Recipe:
    """BERT-large by ELECTRA's code with its objective off: masks anew every epoch, no pairs; 690,000 steps of 4,096
    sequences of PubMed and PMC, with a general vocabulary (section 3.3)."""
    base = biom_electra_large()
    kept = {
        key: place
        for key, place in base.citations.items()
        if not key.startswith(("objectives.replaced_token_detection", "vocabulary", "corpus"))
    }
    return dataclasses.replace(
        base,
        name="biom-bert-large",
        corpus=_BOTH,
        vocabulary=Vocabulary(kind="wordpiece", size=30_000, cased=False),
        model=BertConfig(vocabulary_size=30_000, layers=24, width=1_024, heads=16, feed_forward=4_096),
        objectives=(electra.masked_language_model(0.25),),
        # The run was planned for 700,000 steps and ended at 690,000, so the rate never came down to 0.
        schedule=Linear(warmup_steps=10_000, mode="multiplies", final=1 / 70),
        steps=690_000,
        citations={
            **kept,
            "corpus.sources": "section 3.3: PubMed abstracts and PMC articles",
            "vocabulary": (
                "section 3.3 and Table 1: 30K, Wikipedia and Books; the published configuration has 30,000, uncased, though "
                "section 3.3 calls it that of BioBERT, which is cased"
            ),
            "model": f"section 3.3: BERT-large; {_ELECTRA}: L=24, H=1024, A=16",
            "objectives.masked_language_model": (
                f"section 3.3: dynamic masking by ELECTRA's code; {_ELECTRA}: 25 % in large models"
            ),
            "optimizer.learning_rate": "section 3.3: 2e-4",
            "schedule.final": "section 3.3: planned for 700K steps, ended at 690K",
            "batch.tokens": "section 3.3 and Table 1: 4,096 sequences",
            "steps": "section 3.3 and Table 1: 690K",
        },
    )


def biom_albert_xxlarge() -> Recipe:
    """ALBERT-xxlarge on PubMed: 264,000 steps of 8,192 sequences (section 3.1)."""
    return Recipe(
        name="biom-albert-xxlarge",
        paper=PAPER,
        corpus=_PUBMED,
        vocabulary=Vocabulary(kind="sentencepiece", size=30_000, cased=False),
        model=AlbertConfig(
            vocabulary_size=30_000,
            embedding_width=128,
            layers=12,
            groups=1,
            width=4_096,
            heads=64,
            feed_forward=16_384,
            initializer_range=0.01,
        ),
        objectives=(albert.masked_language_model(), SentenceOrderPrediction(swap_probability=0.5)),
        optimizer=Lamb(learning_rate=1.76e-3, betas=(0.9, 0.999), epsilon=1e-6, weight_decay=0.01),
        schedule=Linear(warmup_steps=3_125, mode="replaces"),
        batch=Batch(tokens=8_192 * 512, length=512),
        steps=264_000,
        citations={
            **albert.CITATIONS,
            "corpus.sources": "section 3.1: PubMed abstracts only",
            "vocabulary": "section 3.1: 30K pieces of the domain by SentencePiece",
            "model": "section 3.1: ALBERT-xxlarge, H=4096; Lan et al. (2020), Table 1: L=12; heads 64 wide",
            "model.dropout": "google-research/albert, albert_xxlarge: none",
            "model.initializer_range": "section 3.1: 0.01",
            "optimizer.learning_rate": (
                "section 3.1: 1.76e-3, ALBERT's rate at half the batch; by the square-root rule it would be 2.49e-3"
            ),
            "batch.tokens": "section 3.1 and Table 1: 8,192 sequences",
            "steps": "section 3.1 and Table 1: 264K",
        },
    )


def biom_albert_xxlarge_pmc() -> Recipe:
    """The same run with 64,000 steps more, for which PMC's articles join the abstracts (section 3.1): needs the token
    stores of both corpora, abstracts first."""
    base = biom_albert_xxlarge()
    steps = 264_000 + 64_000
    return dataclasses.replace(
        base,
        name="biom-albert-xxlarge-pmc",
        corpus=_BOTH,
        batch=dataclasses.replace(
            base.batch,
            phases=(LengthPhase(until=264_000 / steps, length=512, weights=(1.0, 0.0)),),
            weights=(1.0, 1.0),
        ),
        steps=steps,
        citations={
            **base.citations,
            "corpus.sources": "section 3.1: PMC articles are introduced at 264K steps",
            "batch.phases": "section 3.1: PubMed abstracts alone until step 264K",
            "batch.weights": "section 5.4: PubMed and PMC together afterwards",
            "schedule": "google-research/albert: warm-up, then linear decay; here over all 328K steps, of which the paper says nothing",
            "steps": "Table 2: 328K, 64K of them with PMC",
        },
    )
