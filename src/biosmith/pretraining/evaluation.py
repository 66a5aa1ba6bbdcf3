"""The loss on held-out documents, always masked alike, whatever the training does."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from biosmith.pretraining.batches import BatchMaker
from biosmith.pretraining.config import Recipe
from biosmith.pretraining.loading import as_tensors
from biosmith.pretraining.parallel import spread_again
from biosmith.pretraining.step import Trainer


@dataclass(frozen=True)
class HeldOutLoss:
    """Mean losses in nats; `next_sentence` is that of sentence order, too, and None without either objective."""

    masked_language: float
    next_sentence: float | None
    tokens: int

    def total(self, recipe: Recipe) -> float:
        """The training objective on held-out documents, an adversarial part left out."""
        pairs, weight = recipe.pair_objective, recipe.weight_of("masked_language_model")
        return weight * self.masked_language + (pairs.weight if pairs else 0.0) * (self.next_sentence or 0.0)


def evaluate(trainer: Trainer, maker: BatchMaker, most_tokens: int) -> HeldOutLoss:
    """Losses over the held-out documents, or the first `most_tokens` tokens of them (one micro-batch at least)."""
    sums = torch.zeros(3, dtype=torch.float64, device=trainer.device)
    predicted = sequences = tokens = 0
    trainer.model.eval()
    trainer.sums.adversarial = None
    with torch.no_grad():
        for index in range(len(maker.plan(0))):
            batch = as_tensors(maker.make(0, index))
            if tokens and tokens + batch.counts.tokens > most_tokens:
                break
            sums += trainer.loss_sums(*trainer.arguments(batch))
            predicted += batch.counts.hidden - batch.counts.overflow
            sequences += batch.counts.sequences
            tokens += batch.counts.tokens
    spread_again(trainer.module)
    masked_language, next_sentence, _ = sums.tolist()
    return HeldOutLoss(
        masked_language / max(1, predicted),
        next_sentence / max(1, sequences) if maker.rules.has_labels else None,
        tokens,
    )
