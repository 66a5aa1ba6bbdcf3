"""One optimizer step of a latent-variable model: reconstruction and KL over micro-batches, then the update.

Shapes as in `models.vae`: T encoder tokens, S decoder tokens, N sentence slots.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from biosmith.models.memory_attention import PackedLayout
from biosmith.models.vae import DecoderTokens, EncoderTokens, Posterior, VariationalAutoencoder
from biosmith.pretraining.elbo_config import EvidenceLowerBound, VaeRecipe
from biosmith.pretraining.loading import Loaded
from biosmith.pretraining.optimizers import make_optimizers, update
from biosmith.pretraining.parallel import Devices, replicate, to_device, without_reduction
from biosmith.pretraining.schedules import learning_rate
from biosmith.pretraining.sentence_batches import IGNORE, SentenceCounts
from biosmith.randomness import derive_key

TENSORS = (
    "ids_T",
    "positions_T",
    "read_cu",
    "ids_S",
    "positions_S",
    "labels_S",
    "sentence_S",
    "written_cu",
    "real_N",
)


def counted_divergence(divergence_NZ: Tensor, free_bits: Tensor | float, form: str) -> Tensor:
    """KL of each sentence, [N], as the objective counts it.

    Args:
        divergence_NZ: KL of each dimension.
        free_bits: nats a dimension; 0 is the plain KL in either form.
        form: "threshold" counts a dimension where it is above `free_bits`, whole (OPTIMUS, `modules/vae.py`: no constant
            floor); "floor" counts `free_bits` where it is below.
    """
    if form == "floor":
        return torch.maximum(divergence_NZ, torch.as_tensor(free_bits, device=divergence_NZ.device)).sum(-1)
    return (divergence_NZ * (divergence_NZ > free_bits)).sum(-1)


class ElboSums(nn.Module):
    """Sums over the sentences of a micro-batch, float32 [3]: the objective, the reconstruction loss and the plain KL.

    Args:
        model: the model.
        objective: form of the free bits.
        compute: "float32"; "mixed" (torch's autocast); "bfloat16" (parameters are cast, but for the layer to mean and
            log-variance; gradients come back in float32). Posterior, KL and loss are computed in float32 always.
        fused: use the encoder's fused layer and loss of `models.fused`; None does so on a CUDA device in "bfloat16" without
            dropout.
    """

    def __init__(
        self,
        model: VariationalAutoencoder,
        objective: EvidenceLowerBound,
        compute: str = "float32",
        fused: bool | None = None,
    ) -> None:
        super().__init__()
        self.packed, self.compute = _Packed(model, objective.free_bits_form), compute
        config = model.config
        on_gpu = next(model.parameters()).is_cuda
        plain = config == config.without_dropout()
        self.packed.fused = on_gpu and plain and compute == "bfloat16" if fused is None else fused
        self.packed.low = compute == "bfloat16"

    def forward(self, *arguments: Any) -> Tensor:
        """See `_Packed.forward`."""
        if self.compute == "bfloat16":
            # The fused operators cast the weights that they take, and give their gradients in float32.
            kept = ("to_latent.", "encoder.", "decoder.words.") if self.packed.fused else ("to_latent.",)
            cast_to = {
                name: p if name.startswith(tuple(f"model.{part}" for part in kept)) else p.to(torch.bfloat16)
                for name, p in self.packed.named_parameters()
            }
            called: Tensor = torch.func.functional_call(self.packed, cast_to, arguments)
            return called
        device = arguments[0].device.type
        with torch.autocast(device, dtype=torch.bfloat16, enabled=self.compute == "mixed"):
            sums: Tensor = self.packed(*arguments)
        return sums


class _Packed(nn.Module):
    """The sums in whatever precision the parameters have."""

    def __init__(self, model: VariationalAutoencoder, form: str) -> None:
        super().__init__()
        self.model, self.form, self.fused, self.low = model, form, False, False

    def forward(
        self,
        ids_T: Tensor,
        positions_T: Tensor,
        read_cu: Tensor,
        ids_S: Tensor,
        positions_S: Tensor,
        labels_S: Tensor,
        sentence_S: Tensor,
        written_cu: Tensor,
        real_N: Tensor,
        max_seqlen: int,
        noise_NZ: Tensor,
        beta: Tensor,
        free_bits: Tensor,
    ) -> Tensor:
        """Sums [3] of a micro-batch; `real_N` is 1 for sentences and 0 for slots that hold none."""
        z = None
        divergence = counted = torch.zeros((), device=ids_S.device)
        if self.model.config.is_conditioned:
            posterior = self._encode(EncoderTokens(ids_T, positions_T, read_cu, max_seqlen))
            # An empty slot's posterior is that of some other sentence, and would count in the gradient times zero.
            each_NZ = posterior.divergence()
            divergence = (each_NZ.sum(-1) * real_N).sum()
            counted = (counted_divergence(each_NZ, free_bits, self.form) * real_N).sum()
            z = posterior.sample(noise_NZ)
        layout = PackedLayout(sentence_S, written_cu, max_seqlen)
        hidden_SD = self.model.decode_packed(DecoderTokens(ids_S, positions_S, labels_S, layout), z)
        reconstruction = self._loss(hidden_SD, labels_S)
        return torch.stack([reconstruction + beta * counted, reconstruction, divergence])

    def _encode(self, tokens: EncoderTokens) -> Posterior:
        if not self.fused:
            return self.model.encode_packed(tokens)
        from biosmith.models.fused import post_norm_layer

        encoder = self.model.encoder
        assert encoder is not None
        x_TD = encoder.embeddings(tokens.ids_T, tokens.positions_T, torch.zeros_like(tokens.ids_T))
        if self.low:
            x_TD = x_TD.to(torch.bfloat16)
        for layer in encoder.layers:
            x_TD = post_norm_layer(cast(Any, layer), x_TD, tokens.cu_seqlens, tokens.max_seqlen)
        return self.model.posterior_of(x_TD, tokens.cu_seqlens)

    def _loss(self, hidden_SD: Tensor, labels_S: Tensor) -> Tensor:
        """Sum of the cross-entropies of all tokens."""
        words_VD = self.model.decoder.words.weight
        if self.fused:
            from biosmith.models.fused import masked_language_loss

            no_bias = torch.zeros(words_VD.shape[0], dtype=words_VD.dtype, device=words_VD.device)
            return masked_language_loss(hidden_SD, words_VD, no_bias, labels_S).float()
        logits = self.model.decoder.logits(hidden_SD)
        return F.cross_entropy(logits.float(), labels_S, ignore_index=IGNORE, reduction="sum")


class ElboWindow(NamedTuple):
    """Sums over the steps since the last logged one; on the device one float64 vector in this order."""

    objective: float
    reconstruction: float
    divergence: float
    sentences: float
    tokens: float
    read: float
    gradient_norm: float  # of the last step
    skipped: float  # steps of the whole run whose gradient was not finite
    skipped_in_a_row: float


class ElboTrainer:
    """Model, optimizer and the sums of the current log window, on one device.

    Args:
        model: on its device.
        recipe: objective, optimizer and schedule.
        compute: see `ElboSums`.
        devices: this process among all; None if it is alone.
        compile: a mode of torch.compile, or "off".
    """

    def __init__(
        self,
        model: VariationalAutoencoder,
        recipe: VaeRecipe,
        compute: str,
        devices: Devices | None = None,
        compile: str = "off",
    ) -> None:
        self.model, self.recipe = model, recipe
        self.device = next(model.parameters()).device
        self.devices = devices or Devices(self.device)
        sums = ElboSums(model, recipe.objective, compute)
        self.module: nn.Module = replicate(sums, self.devices) if self.devices.size > 1 else sums
        self.sums: Callable[..., Tensor] = self.module
        if compile != "off":
            self.sums = torch.compile(self.module, dynamic=False, mode=compile)
        self.optimizers = make_optimizers(model, recipe.optimizer)
        self.window = torch.zeros(len(ElboWindow._fields), dtype=torch.float64, device=self.device)

    def step(self, step: int, micro_batches: Sequence[Loaded]) -> None:
        """Update number `step` (the first is 0): the gradient of the mean over all its sentences.

        `step` decides the learning rate, beta and, with a micro-batch's number, the noise.
        """
        self.model.train()
        recipe, steps = self.recipe, self.recipe.steps
        counts = [cast(SentenceCounts, batch.counts) for batch in micro_batches]
        counted = [sum(getattr(c, f.name) for c in counts) for f in dataclasses.fields(SentenceCounts)]
        totals = to_device(torch.tensor(counted, dtype=torch.float64), self.device)
        self.devices.reduce(totals)
        # Data parallelism takes the mean of the devices' gradients.
        scale = (self.devices.size / totals[0].clamp(min=1.0)).float()
        beta = recipe.objective.beta_at(step, steps)
        sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        for number, batch in enumerate(micro_batches):
            place = self.devices.rank + number * self.devices.size  # of the micro-batch in the step
            torch.manual_seed(derive_key(recipe.seed, "dropout", step, place))
            with without_reduction(self.module, last=number + 1 == len(micro_batches)):
                losses = self.sums(*self.arguments(batch, beta))
                (losses[0] * scale).backward()
            sums += losses.detach()
        self.devices.reduce(sums)
        rate = learning_rate(recipe.schedule, recipe.optimizer.learning_rate, step, steps)
        norm, skipped = update(self.optimizers, rate, recipe.optimizer.clip_norm)
        self._note(sums, totals, norm, skipped)

    def _note(self, sums: Tensor, totals: Tensor, norm: Tensor, skipped: Tensor) -> None:
        """Add a step to the window; a step that was left out does not spoil its means."""
        window, kept = self.window, 1.0 - skipped.double()
        window[0:3] += torch.where(torch.isfinite(sums), sums, 0.0) * kept
        window[3:6] += totals * kept
        window[6] = norm
        window[7] += skipped
        window[8] = (window[8] + 1.0) * skipped

    def read_window(self, *, reset: bool) -> ElboWindow:
        """The window as numbers; waits for the device."""
        window = ElboWindow(*self.window.tolist())
        if reset:
            self.window[:7] = 0.0
        return window

    def arguments(self, batch: Loaded, beta: float) -> tuple[Any, ...]:
        """What the sums take, on the device. The noise follows torch's seed, so a caller sets it before."""
        tensors = {name: t.to(self.device, non_blocking=True) for name, t in batch.tensors.items()}
        shape = (tensors["real_N"].shape[0], self.recipe.model.latent_size)
        free_bits = self.recipe.objective.free_bits if beta > 0 else 0.0
        return (
            *(tensors[name] for name in TENSORS),
            batch.max_seqlen,
            torch.randn(shape, device=self.device),
            torch.full((), beta, device=self.device),
            torch.full((), free_bits, device=self.device),
        )
