"""Tensor parallelism: each layer shared by several devices (Shoeybi et al., 2019, Megatron-LM, section 3), by torch's
DTensor.

Matrices that make something wide (queries, keys and values; the first of the feed-forward block) are cut by columns,
those that bring it back by rows, and the word embedding, which is the decoder too, by vocabulary. Between them a device
holds the residual stream of its share of the tokens only (sequence parallelism; Korthikanti et al., 2022, section 4.2.2):
what leaves a block is added up and dealt out in one operation, what enters the next is gathered.

Shapes as in `models.encoder`; S is the share of the T tokens that a device has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from biosmith.errors import UsageError
from biosmith.pretraining.batches import IGNORE

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from biosmith.models.bert import PretrainingModel
    from biosmith.pretraining.config import Recipe

REPLICAS, TENSOR = "replicas", "tensor"  # dimensions of the mesh of processes


def require_shareable_layers(recipe: Recipe, devices: int) -> None:
    """Raise `UsageError` unless so many devices can share the layers of a recipe's model."""
    if devices == 1:
        return
    model = recipe.model
    if model.kind != "megatron-bert":
        raise UsageError(
            f"--tensor-parallel shares the layers of a megatron-bert model (biomegatron-345m, ...), not of a "
            f"{model.kind} one; use --parallel ddp or fsdp"
        )
    if recipe.optimizer.kind != "adamw":
        raise UsageError(f"--tensor-parallel needs the optimizer adamw, not {recipe.optimizer.kind}")
    if recipe.objective("adversarial_masked_language_model") is not None:
        raise UsageError("--tensor-parallel has no adversarial_masked_language_model objective")
    counts = {"heads": model.heads, "width": model.width, "feed_forward": model.feed_forward}
    counts |= {"rows (vocabulary_size padded to vocabulary_multiple)": model.rows}
    for name, count in counts.items():
        if count % devices:
            raise UsageError(f"{devices} devices cannot share the model's {count:,} {name}")
    if (recipe.batch.micro_batch_tokens or 0) % devices:
        raise UsageError(
            f"{devices} devices cannot share the {recipe.batch.micro_batch_tokens:,} tokens of a micro-batch; set "
            "batch.micro_batch_tokens to a multiple"
        )


def share_layers(model: PretrainingModel, mesh: DeviceMesh) -> None:
    """Share a model out among the devices of a mesh of one dimension, in place; all of them hold the same model.

    Afterwards `forward_packed` takes the whole micro-batch on every device and gives logits [M, V / devices] of the
    decoder, a DTensor, and the next-sentence logits whole.
    """
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    tokens, everywhere = Shard(0), Replicate()

    def whole(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The first argument as what it is: the same on every device."""
        return (DTensor.from_local(inputs[0], mesh, [everywhere], run_check=False), *inputs[1:])

    def gathered(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Tensor:
        """[S, D] -> [T, D]."""
        return output.redistribute(placements=[everywhere]).to_local()

    encoder: Any = model.encoder
    in_sequence = SequenceParallel(sequence_dim=0, use_local_output=True)
    widen = ColwiseParallel(input_layouts=tokens)
    narrow = RowwiseParallel(output_layouts=tokens)
    plan: dict[str, Any] = {
        "embeddings.words": RowwiseParallel(input_layouts=everywhere, output_layouts=tokens),
        "embeddings.positions": in_sequence,
        "embeddings.types": in_sequence,
        "final_norm": SequenceParallel(sequence_dim=0),
    }
    for number, layer in enumerate(encoder.layers):
        share_heads(layer.attention, mesh.size())
        plan |= {
            f"layers.{number}.attention_norm": in_sequence,
            f"layers.{number}.attention.qkv": widen,
            f"layers.{number}.attention.output": narrow,
            f"layers.{number}.feed_forward_norm": in_sequence,
            f"layers.{number}.feed_forward.up": widen,
            f"layers.{number}.feed_forward.down": narrow,
        }
    for table in (encoder.embeddings.positions, encoder.embeddings.types):
        table.register_forward_pre_hook(whole)
    parallelize_module(encoder, mesh, plan)
    encoder.final_norm.register_forward_hook(gathered)
    _share_heads_of_model(model, mesh, whole)


def _share_heads_of_model(model: PretrainingModel, mesh: DeviceMesh, whole: Any) -> None:
    """The masked-language head's bias goes with the rows of the word embedding; all else is on every device."""
    from torch.distributed.tensor import Shard, distribute_module, distribute_tensor

    head = model.masked_language_head

    def share_bias(name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        if module is head and head.bias is not None:
            head.register_parameter("bias", nn.Parameter(distribute_tensor(head.bias, mesh, [Shard(0)])))

    head.register_forward_pre_hook(whole)
    distribute_module(head, mesh, share_bias)
    for small in (model.encoder.pooler, model.next_sentence_head):
        if small is not None:
            small.register_forward_pre_hook(whole)
            distribute_module(small, mesh, output_fn=lambda module, output, mesh: output.to_local())


def share_heads(attention: Any, devices: int) -> None:
    """Let an attention block compute as many heads as one of the devices has, and order its matrix accordingly."""
    if attention.heads % devices:
        raise UsageError(f"{devices} devices cannot share {attention.heads} attention heads")
    attention.heads //= devices
    with torch.no_grad():
        for parameter in attention.qkv.parameters():
            parameter.copy_(in_shares(parameter, devices))


def in_shares(fused: Tensor, devices: int) -> Tensor:
    """A fused matrix [3 * H * K, ...] of queries, keys and values, reordered so that the i-th of as many equal parts as
    there are devices is that of the i-th device's heads: its queries, keys and values."""
    return fused.unflatten(0, (3, devices, -1)).transpose(0, 1).flatten(0, 2) if devices > 1 else fused


def without_shares(shared: Tensor, devices: int) -> Tensor:
    """The opposite of `in_shares`."""
    return shared.unflatten(0, (devices, 3, -1)).transpose(0, 1).flatten(0, 2) if devices > 1 else shared


def settle_gradients(model: nn.Module) -> None:
    """Add up the gradients of what every device has whole but saw a share of the tokens through (LayerNorm, position and
    segment embeddings), in place. Nothing is done where FSDP has done it."""
    from torch.distributed.tensor import DTensor, Partial, Replicate

    small: list[tuple[nn.Parameter, Tensor]] = []
    for parameter in model.parameters():
        gradient: Any = parameter.grad
        if gradient is None or gradient.placements == parameter.placements:  # type: ignore[attr-defined]
            continue
        if gradient.placements == (Partial(),) and parameter.placements == (Replicate(),):  # type: ignore[attr-defined]
            small.append((parameter, gradient.to_local()))
        else:
            parameter.grad = gradient.redistribute(placements=parameter.placements)  # type: ignore[attr-defined]
    if not small:
        return
    # In one message: there are four such vectors a layer, and each message costs the more time the smaller it is.
    mesh = small[0][0].device_mesh  # type: ignore[attr-defined]
    sums = torch.cat([local.flatten() for _, local in small])
    torch.distributed.all_reduce(sums, group=mesh.get_group())
    for (parameter, local), part in zip(
        small, sums.split([local.numel() for _, local in small]), strict=True
    ):
        settled = DTensor.from_local(part.view_as(local), mesh, [Replicate()], run_check=False)
        parameter.grad = settled


def cross_entropy_sum(logits_MV: Tensor, labels_M: Tensor, pieces: int) -> Tensor:
    """Sum of the cross-entropies over hidden tokens, in float32; labels of `IGNORE` count nothing.

    Args:
        logits_MV: whole, or a DTensor whose columns are spread over devices.
        labels_M: ids.
        pieces: columns from this one on are padding of the vocabulary: no model can predict them.
    """
    spread: Any = getattr(logits_MV, "device_mesh", None)
    if spread is None:
        return nn.functional.cross_entropy(
            logits_MV[..., :pieces].float(), labels_M, ignore_index=IGNORE, reduction="sum"
        )
    from torch.distributed.tensor import DTensor, Shard

    local = logits_MV.to_local().float()  # type: ignore[attr-defined]
    if pieces < logits_MV.shape[1]:
        first = spread.get_local_rank() * local.shape[1]
        columns = torch.arange(first, first + local.shape[1], device=local.device)
        local = local.masked_fill(columns >= pieces, -torch.inf)
    logits = DTensor.from_local(local, spread, [Shard(1)], run_check=False)
    total: Any = nn.functional.cross_entropy(logits, labels_M, ignore_index=IGNORE, reduction="sum")
    return total.to_local()
