"""The fused layer and loss compute what the plain ones do, values and gradients."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from biosmith.models import flash_attention
from biosmith.models.attention import PackedAttention
from biosmith.models.bert import BertConfig, PretrainingModel
from biosmith.models.encoder import PostNormLayer
from biosmith.models.fused import masked_language_loss, post_norm_layer

CONFIG = BertConfig(
    vocabulary_size=61,
    layers=1,
    width=24,
    heads=3,
    feed_forward=40,
    positions=32,
    dropout=0.0,
    attention_dropout=0.0,
)
CU_SEQLENS = torch.tensor(
    [0, 5, 6, 17, 20, 20], dtype=torch.int32
)  # one token alone, and an empty slot at the end


def make_layer(activation: str) -> PostNormLayer:
    torch.manual_seed(0)
    layer = PostNormLayer(BertConfig(**{**CONFIG.__dict__, "activation": activation})).double()
    for parameter in layer.parameters():  # biases and gains that are not 0 and 1, so that every term counts
        torch.nn.init.normal_(parameter, std=0.5)
    return layer


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_fused_layer_equals_the_plain_layer_in_values_and_gradients(
    activation: str, compiled: bool
) -> None:
    # float64, so that only a wrong formula can make a difference above 1e-9.
    layer = make_layer(activation)
    x = torch.randn(20, 24, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(20, 24, dtype=torch.float64)
    plain = layer(x, PackedAttention(CU_SEQLENS, 11))
    expected = torch.autograd.grad((plain * weight).sum(), [x, *layer.parameters()])
    run = torch.compile(post_norm_layer, backend="aot_eager", fullgraph=True) if compiled else post_norm_layer
    fused = run(layer, x, CU_SEQLENS, 11)
    found = torch.autograd.grad((fused * weight).sum(), [x, *layer.parameters()])
    torch.testing.assert_close(fused, plain, atol=1e-9, rtol=1e-9)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


def test_the_backward_pass_of_version_4_gets_and_gives_what_torch_s_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def version_4(
        query: Tensor, key: Tensor, value: Tensor, out: Tensor, dout: Tensor, lse: Tensor, **more: Any
    ) -> Any:
        # Gradients from the definition, by the sums that the forward pass kept.
        asked.append(more)
        found = [torch.empty_like(part) for part in (query, key, value)]
        for start, end in itertools.pairwise(more["cu_seqlens_q"].tolist()):
            q, k, v, o, g = (part[start:end].transpose(0, 1) for part in (query, key, value, out, dout))
            scale = q.shape[-1] ** -0.5
            p = (scale * q @ k.transpose(1, 2) - lse[:, start:end, None]).exp()
            s = p * (g @ v.transpose(1, 2) - (g * o).sum(-1, keepdim=True))
            grads = scale * s @ k, scale * s.transpose(1, 2) @ q, p.transpose(1, 2) @ g
            for one, grad in zip(found, grads, strict=True):
                one[start:end] = grad.transpose(0, 1)
        return (*found, None)

    layer = make_layer("gelu")
    x = torch.randn(20, 24, dtype=torch.float64, requires_grad=True)

    def gradients() -> list[Tensor]:
        return list(
            torch.autograd.grad(
                post_norm_layer(layer, x, CU_SEQLENS, 11).square().sum(), [x, *layer.parameters()]
            )
        )

    expected = gradients()
    monkeypatch.setattr(flash_attention, "suits", lambda query: True)
    monkeypatch.setattr(flash_attention, "_kernels", lambda: SimpleNamespace(_flash_attn_bwd=version_4))
    torch.testing.assert_close(gradients(), expected, atol=1e-9, rtol=1e-9)
    assert asked[0]["max_seqlen_k"] == 11 and asked[0]["deterministic"] is False


def test_version_4_is_left_alone_where_it_is_missing_or_unwanted(monkeypatch: pytest.MonkeyPatch) -> None:
    query = SimpleNamespace(
        is_cuda=True, dtype=torch.bfloat16, shape=(5, 12, 64), device=torch.device("cuda", 0)
    )
    monkeypatch.setattr(flash_attention, "_is_hopper", lambda device: True)
    monkeypatch.setattr(flash_attention, "installed_version", lambda: None)
    assert not flash_attention.suits(query)
    monkeypatch.setattr(flash_attention, "installed_version", lambda: "4.0.0")
    assert flash_attention.suits(query)
    query.shape = (5, 12, 32)
    assert not flash_attention.suits(query)


def test_the_variable_leaves_version_4_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flash_attention.importlib.metadata, "version", lambda package: "4.0.0")
    found = flash_attention.installed_version.__wrapped__
    assert found() == "4.0.0"
    monkeypatch.setenv("BIOSMITH_FLASH_ATTENTION", "2")
    assert found() is None


def test_the_fused_loss_equals_cross_entropy_over_the_unpadded_vocabulary() -> None:
    # 61 words are padded to 128 inside: the padding must take no probability and no gradient.
    torch.manual_seed(1)
    hidden = torch.randn(9, 24, dtype=torch.float64, requires_grad=True)
    words = torch.randn(61, 24, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(61, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([3, 60, -100, 0, 7, 7, -100, 12, 59])
    plain = F.cross_entropy(F.linear(hidden, words, bias), labels, ignore_index=-100, reduction="sum")
    fused = masked_language_loss(hidden, words, bias, labels)
    torch.testing.assert_close(fused, plain)
    for one, other in zip(
        torch.autograd.grad(fused / 7, [hidden, words, bias]),
        torch.autograd.grad(plain / 7, [hidden, words, bias]),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Argument aux_data:UserWarning")  # of FlashAttention-4's compiler
def test_the_cuda_kernels_give_the_plain_model_s_loss_and_gradients() -> None:
    # 16 bits on the fused side, 32 on the other: a wrong kernel is off by far more than rounding.
    torch.manual_seed(2)
    config = BertConfig(
        vocabulary_size=30_522, layers=3, width=384, heads=6, feed_forward=1536
    ).without_dropout()
    model = PretrainingModel(config).cuda()
    lengths = torch.randint(20, 400, (24,))
    cu = F.pad(lengths.cumsum(0), (1, 0)).int().cuda()
    total = int(lengths.sum())
    ids = torch.randint(5, 30_000, (total,), device="cuda")
    positions = torch.cat([torch.arange(length) for length in lengths.tolist()]).cuda()
    masked = torch.randperm(total, device="cuda")[:256]
    labels = torch.randint(5, 30_000, (256,), device="cuda")

    def gradients(fused: bool) -> tuple[float, list[torch.Tensor]]:
        x = model.encoder.embeddings(ids, positions, torch.zeros_like(ids))
        x = x.bfloat16() if fused else x
        for layer in model.encoder.layers:
            x = post_norm_layer(layer, x, cu, 400) if fused else layer(x, PackedAttention(cu, 400))
        head, words = model.masked_language_head, model.encoder.embeddings.words.weight
        hidden = head.norm(F.gelu(head.dense(x[masked].float())))
        if fused:
            loss = masked_language_loss(hidden.bfloat16(), words, head.bias, labels) / 256
        else:
            loss = F.cross_entropy(F.linear(hidden, words, head.bias), labels)
        parts = [*model.encoder.layers.parameters(), words]
        return loss.item(), list(torch.autograd.grad(loss, parts))

    loss, found = gradients(fused=True)
    reference, expected = gradients(fused=False)
    assert abs(loss - reference) < 5e-3
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= 0.05 * other.norm() + 1e-4
