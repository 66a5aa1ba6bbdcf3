"""One optimizer step: forward and backward over micro-batches, then the update, without the host ever waiting.

Shapes: T tokens, N sequence slots, M masked-token slots of a micro-batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from biosmith.errors import UsageError
from biosmith.models.bert import PretrainingLogits, PretrainingModel
from biosmith.models.electra import ElectraModel
from biosmith.models.encoder import Encoder
from biosmith.models.heads import activate
from biosmith.pretraining.adversarial import adversarial_loss
from biosmith.pretraining.batches import IGNORE, Counts
from biosmith.pretraining.config import AdamW, AdversarialMaskedLanguageModel, Recipe
from biosmith.pretraining.loading import Loaded
from biosmith.pretraining.optimizers import make_optimizers, update
from biosmith.pretraining.parallel import Devices, replicate, shard, to_device, without_reduction
from biosmith.pretraining.replaced_tokens import ReplacedTokenSums
from biosmith.pretraining.schedules import learning_rate
from biosmith.pretraining.tensor_parallel import (
    TENSOR,
    cross_entropy_sum,
    require_shareable_layers,
    settle_gradients,
    share_layers,
)
from biosmith.randomness import derive_key

Trainable = PretrainingModel | ElectraModel

TENSORS = (
    "input_ids_T",
    "position_ids_T",
    "token_type_ids_T",
    "cu_seqlens",
    "masked_positions_M",
    "labels_M",
    "next_sentence_labels_N",
)


OBJECTIVES = (
    "masked_language_model",
    "next_sentence_prediction",
    "adversarial_masked_language_model",
    "replaced_token_detection",
)


class LossSums(nn.Module):
    """Sums of the losses of a micro-batch, float32 [3]: masked language model, pairs (next sentence prediction or
    sentence order prediction), adversarial.

    Args:
        model: with both heads, or without the next-sentence head, whose sum is then 0.
        compute: "float32"; "mixed" (torch's autocast: matrix products in bfloat16, normalisation and residual stream
            in float32); or "bfloat16" (parameters are cast, everything runs in bfloat16, gradients come back in
            float32). The loss itself is always computed in float32.
        adversarial: the third sum is 0 while this is None.
        fused: use the fused layer and loss of `models.fused`, which know no dropout; None does so on a CUDA device in
            "bfloat16" where the model has no dropout.
    """

    adversarial: AdversarialMaskedLanguageModel | None
    size = 3

    def __init__(self, model: PretrainingModel, compute: str = "float32", fused: bool | None = None) -> None:
        super().__init__()
        self.packed, self.compute, self.adversarial = _Packed(model), compute, None
        has_fused_parts = model.config.kind in ("bert", "electra", "albert", "megatron-bert")
        plain = has_fused_parts and model.config == model.config.without_dropout()
        if fused and not plain:
            raise UsageError("the fused layer is BERT's, and knows no dropout")
        on_gpu = next(model.parameters()).is_cuda
        self.fused = on_gpu and plain and compute == "bfloat16" if fused is None else fused

    def forward(self, *arguments: Any) -> Tensor:
        """Of what `Trainer.arguments` gives: the six arguments of `PretrainingModel.forward_packed`, labels [M] of the
        hidden tokens and labels [N] of the pairs."""
        *packed, labels_M, pair_labels_N = arguments
        adversarial = torch.zeros((), device=labels_M.device)
        if self.fused and self.adversarial is None:
            masked_language, next_sentence_N2 = self._fused(packed, labels_M)
        else:
            logits = self._logits(*packed)
            next_sentence_N2 = logits.next_sentence_N2
            masked_language = cross_entropy_sum(
                logits.masked_language_MV, labels_M, self.packed.model.config.vocabulary_size
            )
            if self.adversarial is not None:
                adversarial = adversarial_loss(
                    lambda: self._logits(*packed).masked_language_MV,
                    logits.masked_language_MV,
                    self.packed.model.encoder.embeddings.words,
                    len(packed[0]),
                    labels_M,
                    self.adversarial,
                )
        next_sentence = torch.zeros_like(adversarial)
        if next_sentence_N2 is not None:
            next_sentence = F.cross_entropy(
                next_sentence_N2.float(), pair_labels_N, ignore_index=IGNORE, reduction="sum"
            )
        return torch.stack([masked_language, next_sentence, adversarial])

    def _fused(self, packed: Sequence[Any], labels_M: Tensor) -> tuple[Tensor, Tensor | None]:
        """Sum of the masked-language losses, and next-sentence logits [N, 2]."""
        from biosmith.models.fused import encode

        model = self.packed.model
        if model.config.kind == "megatron-bert":  # the loss is fused, the layers are left to the compiler
            found: tuple[Tensor, Tensor | None] = torch.func.functional_call(
                self.packed,
                self._low() if self.compute == "bfloat16" else {},
                tuple(packed),
                {"labels_M": labels_M},
            )
            return found
        *sequences, masked_positions_M = packed
        words = model.encoder.embeddings.words.weight
        kind = torch.bfloat16 if self.compute == "bfloat16" else words.dtype
        x_TD = encode(model.encoder, *sequences, dtype=kind)
        return _sum_and_pairs(model, x_TD, sequences[3], masked_positions_M, labels_M)

    def _low(self) -> dict[str, Tensor]:
        """The parameters in bfloat16; their gradients come back in float32."""
        return {name: p.to(torch.bfloat16) for name, p in self.packed.named_parameters()}

    def _logits(self, *arguments: Any) -> PretrainingLogits:
        if self.compute == "bfloat16":
            called: PretrainingLogits = torch.func.functional_call(self.packed, self._low(), arguments)
            return called
        device = arguments[0].device.type
        with torch.autocast(device, dtype=torch.bfloat16, enabled=self.compute == "mixed"):
            logits: PretrainingLogits = self.packed(*arguments)
        return logits


def _make_sums(model: Trainable, recipe: Recipe, compute: str) -> LossSums | ReplacedTokenSums:
    """The losses of a recipe's objectives."""
    if isinstance(model, PretrainingModel):
        return LossSums(model, compute)
    detection = recipe.objective("replaced_token_detection")
    return ReplacedTokenSums(model, detection.temperature, compute)


def _sum_and_pairs(
    model: PretrainingModel, x_TD: Tensor, cu_seqlens: Tensor, masked_positions_M: Tensor, labels_M: Tensor
) -> tuple[Tensor, Tensor | None]:
    """From the last hidden states: sum of the masked-language losses by the fused loss, next-sentence logits [N, 2]."""
    from biosmith.models.fused import masked_language_loss

    head, words_VD = model.masked_language_head, model.encoder.embeddings.words.weight
    masked_MD = x_TD.index_select(0, masked_positions_M)
    hidden_MD = _dense(head.dense, masked_MD)
    hidden_MD = head.norm(activate(hidden_MD, head.activation).to(head.norm.weight.dtype)).to(x_TD.dtype)
    assert isinstance(head.bias, Tensor)
    assert head.bias is not None
    pieces = model.config.vocabulary_size
    loss = masked_language_loss(hidden_MD, words_VD[:pieces], head.bias[:pieces], labels_M)
    if model.next_sentence_head is None:
        return loss, None
    first_ND = x_TD.index_select(0, cu_seqlens[:-1].clamp(max=x_TD.shape[0] - 1))
    return loss, model.next_sentence_logits(first_ND.to(words_VD.dtype))


def _dense(layer: nn.Linear, x: Tensor) -> Tensor:
    """`layer` in the precision of x."""
    return F.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))


class _Packed(nn.Module):
    """A model whose call is its `forward_packed`, or that and the fused loss of the labels given."""

    def __init__(self, model: PretrainingModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, *arguments: Any, labels_M: Tensor | None = None) -> Any:
        """`PretrainingLogits`, or the sum of losses and the next-sentence logits."""
        if labels_M is None:
            return self.model.forward_packed(*arguments)
        *packed, masked_positions_M = arguments
        x_TD = self.model.encoder.forward_packed(*packed)
        return _sum_and_pairs(self.model, x_TD, packed[3], masked_positions_M, labels_M)


class Window(NamedTuple):
    """Sums over the steps since the last logged one; the device holds them as one float64 vector in this order,
    followed by the sums of `Counts`."""

    masked_language_loss: float
    next_sentence_loss: float
    adversarial_loss: float
    replaced_token_loss: float
    replaced: float  # tokens that the generator filled in wrongly
    replaced_found: float  # of these, by the discriminator
    originals_found: float  # other tokens that the discriminator took for what they are
    predicted: float
    sequences: float
    tokens: float
    gradient_norm: float  # of the last step
    skipped: float  # steps of the whole run whose gradient was not finite
    skipped_in_a_row: float


SUMS = Window._fields.index("predicted")  # sums that a step may have
# What the means of the sums are taken over: hidden tokens, sequences, all tokens.
_MEANS = ("hidden", "overflow", "sequences", "tokens")
_OVER = (0, 1, 0, 2, 2, 2, 2)
COUNTS = tuple(field.name for field in dataclasses.fields(Counts))
WINDOW_SIZE = len(Window._fields) + len(COUNTS)


def read_window(values: Sequence[float]) -> tuple[Window, Counts]:
    """A window's vector by names."""
    size = len(Window._fields)
    return Window(*values[:size]), Counts(*(int(v) for v in values[size:]))


def reset_window(window: Tensor) -> None:
    """Begin a new window; what counts over the whole run stays."""
    names = Window._fields
    kept = [names.index("skipped"), names.index("skipped_in_a_row")]
    held = window[kept].clone()
    window.zero_()
    window[kept] = held


class Trainer:
    """Model, optimizer and the sums of the current log window, on one device.

    Args:
        model: on its device.
        recipe: objectives, optimizer and schedule.
        compute: see `LossSums`.
        devices: this process among all; None if it is alone.
        compile: a mode of torch.compile, or "off".
        recompute_layers: keep no activations but each layer's input, and compute the rest again (activation
            checkpointing): less memory, about a third more arithmetic.
    """

    def __init__(
        self,
        model: Trainable,
        recipe: Recipe,
        compute: str,
        devices: Devices | None = None,
        compile: str = "off",
        recompute_layers: bool = False,
    ) -> None:
        self.model, self.recipe = model, recipe
        self.device = next(model.parameters()).device
        self.devices = devices or Devices(self.device)
        loss_sums = _make_sums(model, recipe, compute)
        self.sums, self.module = loss_sums, cast(nn.Module, loss_sums)
        if recompute_layers:
            for encoder in (part for part in model.modules() if isinstance(part, Encoder)):
                encoder.activation_checkpointing = True
        if self.devices.mesh is not None:
            require_shareable_layers(recipe, self.devices.tensor)
            assert isinstance(model, PretrainingModel)
            share_layers(model, self.devices.mesh[TENSOR])
            loss_sums.fused = False
        if self.devices.replicas > 1 and self.devices.strategy == "fsdp":
            _spread(loss_sums, recipe, self.devices)
        elif self.devices.replicas > 1:
            self.module = replicate(loss_sums, self.devices)
        self.loss_sums: Callable[..., Tensor] = self.module
        if compile != "off" and recipe.objective("adversarial_masked_language_model") is None:
            self.loss_sums = torch.compile(self.module, dynamic=False, mode=compile)
        self.optimizers = make_optimizers(model, recipe.optimizer)
        pairs = recipe.pair_objective
        weights = [recipe.weight_of(kind) for kind in OBJECTIVES]
        weights[1] = 0.0 if pairs is None else pairs.weight
        # Sums that no objective stands for are counted only.
        weights = (weights + [0.0] * SUMS)[: loss_sums.size]
        # Data parallelism takes the mean of the replicas' gradients.
        self.weights = self.devices.replicas * torch.tensor(weights, dtype=torch.float64, device=self.device)
        # A list as an index would be copied to the device in every step, and copies from unpinned memory are waited for.
        self.over = torch.tensor(_OVER[: loss_sums.size], device=self.device)
        self.window = torch.zeros(WINDOW_SIZE, dtype=torch.float64, device=self.device)

    def step(self, step: int, micro_batches: Sequence[Loaded]) -> None:
        """Update number `step` (the first is 0).

        Losses are means over all hidden tokens, and all sequences, of the whole step, so that neither the number of
        micro-batches nor of devices changes anything but rounding.

        Args:
            step: decides the learning rate and, with a micro-batch's number, the dropout.
            micro_batches: this device's share of the step's.
        """
        self.model.train()
        adversarial = self.recipe.objective("adversarial_masked_language_model")
        is_on = adversarial is not None and adversarial.is_on(step, self.recipe.steps)
        self.sums.adversarial = adversarial if is_on else None
        counts = sum((b.counts for b in micro_batches), Counts())
        counted = to_device(torch.tensor(dataclasses.astuple(counts), dtype=torch.float64), self.device)
        sums = torch.zeros(self.sums.size, dtype=torch.float64, device=self.device)
        self.devices.reduce(counted)
        hidden, overflow, sequences, tokens = (counted[COUNTS.index(n)] for n in _MEANS)
        totals = torch.stack([hidden - overflow, sequences, tokens])
        scale = (self.weights / totals[self.over].clamp(min=1.0)).float()
        for number, batch in enumerate(micro_batches):
            place = self.devices.replica + number * self.devices.replicas  # of the micro-batch in the step
            torch.manual_seed(derive_key(self.recipe.seed, "dropout", step, place, *self.devices.parts))
            with without_reduction(self.module, last=number + 1 == len(micro_batches)):
                losses = self.loss_sums(*self.arguments(batch))
                (losses * scale).sum().backward()
            sums += losses.detach()
        if self.devices.tensor > 1:
            settle_gradients(self.model)
        self.devices.reduce(sums)
        recipe = self.recipe
        rate = learning_rate(recipe.schedule, recipe.optimizer.learning_rate, step, recipe.steps)
        norm, skipped = update(self.optimizers, rate, recipe.optimizer.clip_norm)
        self._note(sums, totals, counted, norm, skipped)

    def _note(self, sums: Tensor, totals: Tensor, counted: Tensor, norm: Tensor, skipped: Tensor) -> None:
        """Add a step to the window; a step that was left out does not spoil its means."""
        window, kept, named = self.window, 1.0 - skipped.double(), len(Window._fields)
        at = named - 3
        window[: len(sums)] += torch.where(torch.isfinite(sums), sums, 0.0) * kept
        window[SUMS:at] += totals * kept
        window[at] = norm
        window[at + 1] += skipped
        window[at + 2] = (window[at + 2] + 1.0) * skipped
        window[named:] += counted

    def arguments(self, batch: Loaded) -> tuple[Any, ...]:
        """What the loss module takes, on the device. A CPU gets the real part of a batch only, if there is one and the
        CPU does not share its tokens with others."""
        tensors = batch.tensors
        if self.device.type == "cpu" and self.devices.tensor == 1 and batch.counts.sequences:
            tensors = _without_unused(tensors, batch.counts)
        else:
            tensors = {name: t.to(self.device, non_blocking=True) for name, t in tensors.items()}
        return (
            *(tensors[name] for name in TENSORS[:4]),
            batch.max_seqlen,
            *(tensors[name] for name in TENSORS[4:]),
        )


def _spread(loss_sums: LossSums | ReplacedTokenSums, recipe: Recipe, devices: Devices) -> None:
    """Spread a model's parameters over the replicas; they are cast when they are gathered."""
    if not isinstance(recipe.optimizer, AdamW):
        raise UsageError(
            f"--parallel fsdp needs the optimizer adamw, not {recipe.optimizer.kind}; use --parallel ddp"
        )
    if isinstance(loss_sums, ReplacedTokenSums):
        raise UsageError("--parallel fsdp cannot spread networks that share embeddings; use --parallel ddp")
    packed = loss_sums.packed
    shard(list(packed.model.encoder.layers), packed, loss_sums.compute == "bfloat16", devices)
    loss_sums.fused = False
    if loss_sums.compute == "bfloat16":
        loss_sums.compute = "float32"


def _without_unused(tensors: dict[str, Tensor], counts: Counts) -> dict[str, Tensor]:
    limits = {
        "cu_seqlens": counts.sequences + 1,
        "masked_positions_M": counts.hidden - counts.overflow,
        "labels_M": counts.hidden - counts.overflow,
        "next_sentence_labels_N": counts.sequences,
    }
    return {name: tensor[: limits.get(name, counts.tokens)] for name, tensor in tensors.items()}
