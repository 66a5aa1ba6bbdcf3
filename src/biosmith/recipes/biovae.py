"""BioVAE (Trieu et al., 2022): OPTIMUS (Li et al., 2020) on sentences of PubMed, encoder SciBERT, decoder GPT-2."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from biosmith.errors import UsageError
from biosmith.models.bert import BertConfig
from biosmith.models.gpt2 import Gpt2Config
from biosmith.models.vae import VaeConfig, count_parameters
from biosmith.pretraining.config import AdamW, CorpusFilter, Linear, Profile
from biosmith.pretraining.elbo_config import (
    EvidenceLowerBound,
    SentenceBatch,
    SentenceEvaluation,
    VaeRecipe,
    without_dropout,
)

PAPER = "Trieu et al. (2022), BioVAE: a pre-trained latent variable language model for biomedical text mining"

_CITATIONS = {
    "corpus.sources": "supplement, E.4: 34 million sentences of 3.35 million abstracts",
    "model.latent_size": "Table 2: 32 and 768",
    "model.memory": "OPTIMUS, section 3.2: both ways of injection",
    "model.embedding": "OPTIMUS, section 3.2: both ways of injection",
    "model.encoder": "supplement, A: SciBERT, which is BERT-base; --init gives it",
    "model.encoder.vocabulary_size": "SciBERT (Beltagy et al., 2019), scivocab cased: 31,116",
    "model.decoder": "supplement, A: GPT-2 small; --init-decoder gives it",
    "model.decoder.vocabulary_size": "OPTIMUS code: GPT-2's 50,257 and <PAD>, <BOS>, <EOS>",
    "objective.beta": "Table 2: 0 and 0.5; OPTIMUS's releases also have 1",
    "objective.schedule": "OPTIMUS code: cyclic; the value after the last step is beta, where the code jumps to 1",
    "objective.cycles": "OPTIMUS code, frange_cycle_zero_linear: 10",
    "objective.ratio_zero": "OPTIMUS's releases: 0.5; the code's default is 0.25",
    "objective.ratio_increase": "OPTIMUS's releases: 0.25",
    "objective.free_bits": "OPTIMUS's releases: 1.0; the code's default is 3.0",
    "objective.free_bits_form": "OPTIMUS code, modules/vae.py: KL where it is above the threshold, no constant floor",
    "optimizer.learning_rate": "OPTIMUS code: 5e-5",
    "optimizer.epsilon": "OPTIMUS code: 1e-8",
    "optimizer.weight_decay": "OPTIMUS code: 0",
    "optimizer.bias_correction": "OPTIMUS code: the AdamW of pytorch-transformers corrects",
    "optimizer.clip_norm": "OPTIMUS code: 1.0",
    "schedule": "OPTIMUS code: linear decay to 0, no warm-up",
    "batch.sentences": "supplement, F: 128 GPUs; OPTIMUS's run scripts: 16 sentences each; 16,700 x 2,048 are 34 million",
    "batch.length": "OPTIMUS's run scripts: block size 128; sentences of at most 64 words",
    "steps": "the releases' names: 16,700 and 16,767, one epoch",
    "seed": "OPTIMUS code: 42",
}


def _recipe(name: str, latent_size: int, beta: float) -> VaeRecipe:
    return VaeRecipe(
        name=name,
        paper=PAPER,
        corpus=CorpusFilter(sources=("PubMed abstracts, sentences of at most 64 words",)),
        model=VaeConfig(
            latent_size=latent_size,
            memory=True,
            embedding=True,
            encoder=BertConfig(vocabulary_size=31_116),
            decoder=Gpt2Config(vocabulary_size=50_260, pad_id=50_257, begin_id=50_258, end_id=50_259),
        ),
        objective=EvidenceLowerBound(
            beta=beta, schedule="cyclic", cycles=10, ratio_zero=0.5, ratio_increase=0.25, free_bits=1.0
        ),
        optimizer=AdamW(
            learning_rate=5e-5, epsilon=1e-8, weight_decay=0.0, bias_correction=True, clip_norm=1.0
        ),
        schedule=Linear(warmup=0.0, mode="triangle"),
        batch=SentenceBatch(sentences=2_048, length=128),
        steps=16_700,
        seed=42,
        citations=_CITATIONS,
    )


def biovae_32_beta00() -> VaeRecipe:
    """Latent size 32, an autoencoder: beta is 0 throughout (`pm-full-lt32-beta00`)."""
    return _recipe("biovae-32-beta00", 32, 0.0)


def biovae_32_beta05() -> VaeRecipe:
    """Latent size 32, beta up to 0.5 (`pm-full-lt32-beta05`)."""
    return _recipe("biovae-32-beta05", 32, 0.5)


def biovae_768_beta00() -> VaeRecipe:
    """Latent size 768, an autoencoder (`pm-full-lt768-beta00`)."""
    return _recipe("biovae-768-beta00", 768, 0.0)


def biovae_768_beta05() -> VaeRecipe:
    """Latent size 768, beta up to 0.5 (`pm-full-lt768-beta05`)."""
    return _recipe("biovae-768-beta05", 768, 0.5)


def biovae_768_beta10() -> VaeRecipe:
    """Latent size 768, beta up to 1, the evidence lower bound itself (OPTIMUS's third release)."""
    return _recipe("biovae-768-beta10", 768, 1.0)


def biovae_language_model() -> VaeRecipe:
    """The decoder alone, conditioned on nothing: what a reconstruction has to beat."""
    base = _recipe("biovae-language-model", 32, 0.0)
    return dataclasses.replace(
        base,
        model=dataclasses.replace(base.model, memory=False, embedding=False),
        citations=_CITATIONS
        | {
            "model.memory": "none: a plain language model of the decoder's size",
            "model.embedding": "none: a plain language model of the decoder's size",
        },
    )


def biovae_demo() -> VaeRecipe:
    """The smallest one: two layers on either side, minutes on a CPU. It follows no paper's size and is no good model."""
    base = _recipe("biovae-demo", 32, 0.5)
    return dataclasses.replace(
        base,
        model=dataclasses.replace(
            base.model,
            encoder=BertConfig(
                vocabulary_size=8_000, layers=2, width=128, heads=2, feed_forward=512, positions=128
            ),
            decoder=Gpt2Config(
                vocabulary_size=8_000,
                layers=2,
                width=128,
                heads=2,
                positions=130,
                pad_id=0,
                begin_id=2,
                end_id=3,
            ),
        ),
        objective=dataclasses.replace(base.objective, cycles=1, free_bits=0.5),
        optimizer=dataclasses.replace(base.optimizer, learning_rate=1e-3),
        schedule=Linear(warmup=0.05, mode="triangle"),
        batch=SentenceBatch(sentences=64, length=96),
        evaluation=SentenceEvaluation(every=200, documents=100, sentences=200, final_samples=5),
        steps=600,
        checkpoint_every=200,
        log_every=20,
        citations={
            "model": "ours: BERT-tiny's size on either side",
            "objective": "ours: one cycle, as the run is short",
        },
    )


# One line a recipe, as in `table.RECIPES`.
VAE_RECIPES: dict[str, Callable[[], VaeRecipe]] = {
    "biovae-32-beta00": biovae_32_beta00,
    "biovae-32-beta05": biovae_32_beta05,
    "biovae-768-beta00": biovae_768_beta00,
    "biovae-768-beta05": biovae_768_beta05,
    "biovae-768-beta10": biovae_768_beta10,
    "biovae-language-model": biovae_language_model,
    "biovae-demo": biovae_demo,
}


def find_vae_recipe(name: str, profile: Profile = "faithful") -> VaeRecipe:
    """The recipe of that name in one of its profiles ("fast" leaves dropout out and computes in bfloat16).

    Raises:
        UsageError: the name is unknown; the valid ones are listed.
    """
    if name not in VAE_RECIPES:
        raise UsageError(f"recipe {name!r} is unknown; valid: {', '.join(VAE_RECIPES)}")
    recipe = dataclasses.replace(VAE_RECIPES[name](), profile=profile)
    if profile == "faithful":
        return recipe
    reason = "profile fast: none (Geiping and Goldstein, 2023, Cramming, section 4.3)"
    cited = {f"model.{part}.dropout": reason for part in ("encoder", "decoder")}
    return dataclasses.replace(without_dropout(recipe), citations={**recipe.citations, **cited})


def vae_parameters(recipe: VaeRecipe) -> int:
    """Parameters of the recipe's model."""
    return count_parameters(recipe.model)
