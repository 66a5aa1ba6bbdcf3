"""The loss on held-out documents, always masked alike, whatever the training does."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from biosmith.pretraining.batches import BatchMaker
from biosmith.pretraining.config import Recipe
from biosmith.pretraining.loading import as_tensors
from biosmith.pretraining.parallel import spread_again
from biosmith.pretraining.step import Trainer
from biosmith.randomness import derive_key


@dataclass(frozen=True)
class HeldOutLoss:
    """Mean losses in nats; `next_sentence` is that of sentence order, too, and None without either objective."""

    masked_language: float
    next_sentence: float | None
    tokens: int
    replaced_tokens: float | None = None
    replaced_accuracy: float | None = None  # share of the replaced tokens that the discriminator tells

    def total(self, recipe: Recipe) -> float:
        """The training objective on held-out documents, an adversarial part left out."""
        pairs, weight = recipe.pair_objective, recipe.weight_of("masked_language_model")
        total = weight * self.masked_language + (pairs.weight if pairs else 0.0) * (self.next_sentence or 0.0)
        return total + recipe.weight_of("replaced_token_detection") * (self.replaced_tokens or 0.0)


def evaluate(trainer: Trainer, maker: BatchMaker, most_tokens: int) -> HeldOutLoss:
    """Losses over the held-out documents, or the first `most_tokens` tokens of them (one micro-batch at least)."""
    sums = torch.zeros(trainer.sums.size, dtype=torch.float64, device=trainer.device)
    predicted = sequences = tokens = 0
    trainer.model.eval()
    trainer.sums.adversarial = None
    with torch.no_grad():
        for index in range(len(maker.plan(0))):
            batch = as_tensors(maker.make(0, index))
            if tokens and tokens + batch.counts.tokens > most_tokens:
                break
            torch.manual_seed(derive_key(0, "evaluation", index))  # a generator's samples
            sums += trainer.loss_sums(*trainer.arguments(batch))
            predicted += batch.counts.hidden - batch.counts.overflow
            sequences += batch.counts.sequences
            tokens += batch.counts.tokens
    spread_again(trainer.module)
    masked_language, next_sentence, _, *replaced = sums.tolist()
    return HeldOutLoss(
        masked_language / max(1, predicted),
        next_sentence / max(1, sequences) if maker.rules.has_labels else None,
        tokens,
        replaced[0] / max(1, tokens) if replaced else None,
        replaced[2] / max(1.0, replaced[1]) if replaced else None,
    )
