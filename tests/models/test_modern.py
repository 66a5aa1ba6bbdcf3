"""The modern encoder against itself: packed against padded, windows, rotary positions, size, compilation."""

from __future__ import annotations

import dataclasses
import math
import shutil

import pytest
import torch
from torch import nn

from biosmith.errors import UsageError
from biosmith.models.attention import PackedAttention, PaddedAttention, RotaryAttention
from biosmith.models.bert import PretrainingModel, count_parameters
from biosmith.models.modern import ModernConfig, PreNormLayer
from models.checks import packed_batch, padded_batch
from models.modern_checks import TINY_MODERN, VARIANTS, tiny_modern


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_packed_and_padded_hidden_states_are_equal(changes: dict[str, object]) -> None:
    model = tiny_modern(**changes).eval()
    ids, mask, _ = padded_batch()
    from_padded = model.encoder(ids, mask)[mask.bool()]
    from_packed = model.encoder.forward_packed(*packed_batch().arguments)
    torch.testing.assert_close(from_packed, from_padded, rtol=0, atol=1e-5)


def test_packed_and_padded_losses_and_gradients_are_equal() -> None:
    # One loss over all real tokens; each road gives each parameter its gradient.
    ids, mask, _ = padded_batch()
    weights = torch.linspace(-1, 1, int(mask.sum()) * 97).view(-1, 97) / 97
    roads = []
    for is_packed in (False, True):
        model = tiny_modern().eval()
        if is_packed:
            packed = packed_batch()
            tokens = model.forward_packed(
                *packed.arguments, torch.arange(len(packed.input_ids_T))
            ).masked_language_MV
        else:
            tokens = model(ids, mask).masked_language_MV[mask.bool()]
        (tokens * weights).sum().backward()
        roads.append({"": tokens.detach(), **{name: p.grad for name, p in model.named_parameters()}})
    for name, gradient in roads[0].items():
        assert gradient.abs().max() > 0, f"{name} has no gradient"
        torch.testing.assert_close(roads[1][name], gradient, rtol=1e-5, atol=1e-5, msg=name)


def test_no_token_sees_another_document() -> None:
    # Changing the third sequence must change its own states and leave every other bit alone.
    model = tiny_modern().eval()
    packed = packed_batch()
    before = model.encoder.forward_packed(*packed.arguments)
    begin, end = packed.cu_seqlens[2].item(), packed.cu_seqlens[3].item()
    ids = packed.input_ids_T.clone()
    ids[begin:end] = (ids[begin:end] + 13) % 97
    after = model.encoder.forward_packed(ids, *packed.arguments[1:])
    inside = torch.zeros(len(ids), dtype=torch.bool)
    inside[begin:end] = True
    assert torch.equal(after[~inside], before[~inside])
    assert (after[inside] != before[inside]).any(dim=1).all()


@pytest.mark.parametrize(("local_attention", "reach"), [(6, 3), (5, 2), (1, 0)])
def test_a_local_layer_sees_half_the_window_to_each_side_and_no_further(
    local_attention: int, reach: int
) -> None:
    # One local layer behind a global one whose attention gives nothing: a change at token 20 reaches 20 +- reach.
    model = tiny_modern(layers=2, global_every=2, local_attention=local_attention).eval()
    first = model.encoder.layers[0]
    assert isinstance(first, PreNormLayer)
    nn.init.zeros_(first.attention.output.weight)
    ids = torch.arange(1, 41)
    other = ids.clone()
    other[20] = 90
    cu_seqlens = torch.tensor([0, 40], dtype=torch.int32)
    for run in (
        lambda x: model.encoder(x[None], torch.ones(1, 40))[0],
        lambda x: model.encoder.forward_packed(x, torch.arange(40), torch.zeros(40), cu_seqlens, 40),
    ):
        changed = (run(ids) != run(other)).any(dim=1).nonzero().flatten().tolist()
        assert changed == list(range(20 - reach, 20 + reach + 1))


@pytest.mark.parametrize("window", [None, 0, 2, 15, 99])
def test_all_roads_of_windowed_attention_give_the_same_values_and_gradients(window: int | None) -> None:
    # Against a softmax written out; the padded road serves compiled CPU code and 32 bits on a card.
    cu_seqlens = torch.tensor([0, 7, 8, 20, 20, 20], dtype=torch.int32)
    attention = PackedAttention(cu_seqlens, 16, window)

    def written_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float) -> torch.Tensor:
        sequence = torch.repeat_interleave(torch.arange(5), cu_seqlens.diff())
        place = torch.arange(20)
        allowed = sequence[:, None] == sequence
        if window is not None:
            allowed &= (place[:, None] - place).abs() <= window
        scores = torch.einsum("qhk,shk->hqs", q, k) / math.sqrt(8)
        return torch.einsum("hqs,shk->qhk", scores.masked_fill(~allowed, -torch.inf).softmax(-1), v)

    results = []
    for road in (written_out, attention._one_by_one, attention._padded):
        q, k, v = (
            torch.linspace(-2, 2, 20 * 2 * 8).view(20, 2, 8).roll(i).requires_grad_() for i in range(3)
        )
        mixed = road(q, k, v, 0.0)
        (mixed * torch.linspace(-1, 1, mixed.numel()).view_as(mixed)).sum().backward()
        results.append((mixed, q.grad, k.grad, v.grad))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-5)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    seen = {}

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float) -> torch.Tensor:
        seen["scores"] = torch.einsum("qhk,shk->hqs", query, key)[0]
        return value

    query, key = torch.randn(8).expand(6, 1, 8), torch.randn(8).expand(6, 1, 8)
    for shift in (0, 1_000):
        RotaryAttention.of(attend, torch.arange(6) + shift, 8, 10_000.0)(query, key, key, 0.0)
        scores = seen["scores"]
        for distance in range(-5, 6):
            diagonal = scores.diagonal(distance)
            torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-3)
    assert not torch.allclose(scores[0, 0], scores[0, 3])


def test_plane_i_turns_by_the_position_times_its_frequency() -> None:
    # RoFormer, section 3.2.2: theta_i = base ** (-2 i / K); at K = 4 and base 100 these are 1 and 1 / 10.
    rotary = RotaryAttention.of(PaddedAttention(None), torch.tensor([0, 3]), 4, 100.0)
    torch.testing.assert_close(rotary.cosine[1, 0], torch.tensor([math.cos(3.0), math.cos(0.3)]))
    turned = rotary._turn(torch.tensor([1.0, 0.0, 0.0, 2.0]).expand(2, 1, 4))
    torch.testing.assert_close(turned[0, 0], torch.tensor([1.0, 0.0, 0.0, 2.0]))
    expected = [math.cos(3.0), -2 * math.sin(0.3), math.sin(3.0), 2 * math.cos(0.3)]
    torch.testing.assert_close(turned[1, 0], torch.tensor(expected))


def test_a_row_that_is_padding_only_stays_finite_in_values_and_gradients() -> None:
    # Padding far from every real token sees no key in a local layer: NaN there would spread through the gradients.
    model = tiny_modern().train()
    ids, mask, _ = padded_batch()
    mask = mask.clone()
    mask[3] = 0
    hidden = model.encoder(ids, mask)
    hidden[mask.bool()].square().sum().backward()
    assert torch.isfinite(hidden).all()
    assert all(torch.isfinite(p.grad).all() for p in model.encoder.parameters())


def test_padding_changes_nothing_for_real_tokens() -> None:
    model = tiny_modern().eval()
    ids, mask, _ = padded_batch()
    torch.testing.assert_close(
        model.encoder(ids[2:3, :17]), model.encoder(ids, mask)[2:3, :17], rtol=0, atol=1e-5
    )


def test_segments_are_taken_and_ignored() -> None:
    model = tiny_modern().eval()
    ids, mask, types = padded_batch()
    assert torch.equal(model.encoder(ids, mask, types), model.encoder(ids, mask))


@pytest.mark.parametrize("name", ["dropout", "embedding_dropout", "attention_dropout"])
def test_each_dropout_acts_in_training_and_only_there(name: str) -> None:
    model = tiny_modern(**{name: 0.5})
    ids, mask, _ = padded_batch()
    packed = packed_batch()
    for run in (
        lambda: model.encoder(ids, mask),
        lambda: model.encoder.forward_packed(*packed.arguments),
    ):
        model.train()
        assert not torch.equal(run(), run())
        model.eval()
        assert torch.equal(run(), run())


def test_without_dropout_every_dropout_is_off() -> None:
    config = dataclasses.replace(TINY_MODERN, dropout=0.1, embedding_dropout=0.2, attention_dropout=0.3)
    assert config.without_dropout() == TINY_MODERN


def test_weights_start_smaller_where_a_block_ends() -> None:
    # A normal cut at two standard deviations keeps 0.8796 of its own; outputs are divided by sqrt(2 * 8 layers) = 4.
    torch.manual_seed(0)
    model = PretrainingModel(
        ModernConfig(vocabulary_size=2_000, layers=8, width=128, heads=2, feed_forward=256)
    )
    ends = ("attention.output.weight", "feed_forward.down.weight", "masked_language_head.dense.weight")
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            scale = 4 if name.endswith(ends) else 1
            assert parameter.std().item() == pytest.approx(0.02 * 0.8796 / scale, rel=0.03), name
            assert parameter.abs().max().item() <= 0.04 / scale, name


def test_the_default_has_as_many_parameters_as_the_published_modernbert_base() -> None:
    # Warner et al. (2024), section 2.1: 149 million, 22 layers, 768 wide, GLU expansion 2,304.
    v, d, f, layers = 50_368, 768, 1_152, 22
    encoder = v * d + layers * (4 * d * d + 3 * d * f) + (1 + 2 * layers - 1 + 1) * d
    assert encoder == 149_014_272
    assert count_parameters(ModernConfig()) == encoder + (d * d + d + v)


def test_parameters_are_counted_without_being_made() -> None:
    for changes in VARIANTS.values():
        model = tiny_modern(**changes)
        assert count_parameters(model.config) == sum(p.numel() for p in model.parameters())


def test_the_first_layer_reads_the_normalised_embeddings_as_they_are() -> None:
    names = {name for name, _ in tiny_modern().named_parameters()}
    assert "encoder.layers.0.attention_norm.weight" not in names
    assert "encoder.layers.1.attention_norm.weight" in names


def test_it_has_no_next_sentence_head_and_says_so() -> None:
    assert PretrainingModel(TINY_MODERN).next_sentence_head is None
    for asked in ({"next_sentence": True}, {"pooler": True}):
        with pytest.raises(UsageError, match=r"modernbert model .* no next-sentence head"):
            PretrainingModel(TINY_MODERN, **asked)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"heads": 5}, "width 48 cannot be shared out among 5 heads"),
        ({"width": 12, "heads": 4}, "even head width, not 3"),
        ({"head_activation": "relu"}, "head_activation 'relu' is unknown; valid: gelu, gelu_new"),
        ({"global_every": 0}, "global_every must be at least 1"),
        ({"embedding_dropout": 1.0}, "embedding_dropout must lie in"),
        ({"local_theta": 0.0}, "local_theta must be positive"),
    ],
)
def test_an_impossible_configuration_is_refused_by_name(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        dataclasses.replace(TINY_MODERN, **changes)


def test_it_compiles_as_one_static_graph_with_the_same_values_and_gradients() -> None:
    # backend "eager" traces fully (fullgraph refuses any break or data-dependent branch) without a C++ compiler.
    model = tiny_modern().eval()
    packed = packed_batch()
    arguments = (*packed.arguments, torch.tensor([3, 44, 0]))
    results = []
    for forward in (
        model.forward_packed,
        torch.compile(model.forward_packed, dynamic=False, fullgraph=True, backend="eager"),
    ):
        model.zero_grad()
        logits = forward(*arguments)
        assert logits.next_sentence_N2 is None
        logits.masked_language_MV.square().mean().backward()
        results.append([logits.masked_language_MV, *(p.grad for p in model.parameters())])
    for compiled, eager in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5)
    ids, mask, _ = padded_batch()
    padded = torch.compile(model.encoder, dynamic=False, fullgraph=True, backend="eager")
    torch.testing.assert_close(padded(ids, mask), model.encoder(ids, mask), rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.skipif(" " in torch.__file__, reason="inductor cannot link from a path with spaces")
def test_it_compiles_with_inductor() -> None:
    model = tiny_modern(layers=2).eval()
    packed = packed_batch()
    compiled = torch.compile(model.encoder.forward_packed, dynamic=False, fullgraph=True)
    torch.testing.assert_close(
        compiled(*packed.arguments), model.encoder.forward_packed(*packed.arguments), rtol=0, atol=1e-5
    )


def test_sixteen_bit_parameters_work_on_both_roads() -> None:
    model = tiny_modern(initializer_range=0.02).eval().to(torch.bfloat16)
    ids, mask, _ = padded_batch()
    from_padded = model.encoder(ids, mask)[mask.bool()]
    from_packed = model.encoder.forward_packed(*packed_batch().arguments)
    assert from_packed.dtype == torch.bfloat16
    torch.testing.assert_close(from_packed, from_padded, rtol=0.1, atol=0.1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_packed_kernel_of_a_card_has_the_same_window() -> None:
    attention = PackedAttention(torch.tensor([0, 300, 301, 512], dtype=torch.int32, device="cuda"), 300, 32)
    parts = [torch.randn(512, 4, 64, device="cuda").to(torch.bfloat16) for _ in range(3)]
    expected = attention._padded(*(part.float() for part in parts), 0.0)
    torch.testing.assert_close(attention(*parts, 0.0).float(), expected, rtol=0, atol=2e-2)
