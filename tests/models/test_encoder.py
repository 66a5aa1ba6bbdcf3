"""The encoder against itself: packed against padded, dropout, initialisation, compilation."""

from __future__ import annotations

import dataclasses
import math
import shutil

import pytest
import torch
from torch import nn

from biosmith.errors import UsageError
from biosmith.models.attention import PackedAttention, PaddedAttention
from biosmith.models.bert import BertConfig, PretrainingModel, count_parameters
from biosmith.models.encoder import Embeddings, Encoder, sinusoidal_positions, start_sinusoidal
from biosmith.models.packed import PackedSequences
from models.checks import TINY, packed_batch, padded_batch, tiny_model


def test_packed_and_padded_hidden_states_are_equal() -> None:
    model = tiny_model().eval()
    ids, mask, types = padded_batch()
    from_padded = model.encoder(ids, mask, types)[mask.bool()]
    from_packed = model.encoder.forward_packed(*packed_batch().arguments)
    torch.testing.assert_close(from_packed, from_padded, rtol=0, atol=1e-5)


def test_packed_and_padded_gradients_are_equal() -> None:
    # One loss over all real tokens and both heads; each road gives each parameter its gradient.
    ids, mask, types = padded_batch()
    weights = torch.linspace(-1, 1, int(mask.sum()) * 97).view(-1, 97) / 97
    roads = []
    for is_packed in (False, True):
        model = tiny_model().eval()
        if is_packed:
            packed = packed_batch()
            logits = model.forward_packed(*packed.arguments, torch.arange(len(packed.input_ids_T)))
            tokens = logits.masked_language_MV
        else:
            logits = model(ids, mask, types)
            tokens = logits.masked_language_MV[mask.bool()]
        ((tokens * weights).sum() + logits.next_sentence_N2.log_softmax(-1)[:, 0].sum()).backward()
        roads.append({name: p.grad for name, p in model.named_parameters()})
    for name, gradient in roads[0].items():
        assert gradient.abs().max() > 0, f"{name} has no gradient"
        torch.testing.assert_close(roads[1][name], gradient, rtol=1e-5, atol=1e-5, msg=name)


def test_no_token_sees_another_document() -> None:
    # Changing the third sequence must change its own states and leave every other bit alone.
    model = tiny_model().eval()
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


def test_the_padded_road_of_packed_attention_gives_the_same_values_and_gradients() -> None:
    # It serves compiled CPU code and 32-bit or dropout training on a card; empty slots at the end are allowed.
    cu_seqlens = torch.tensor([0, 7, 8, 20, 20, 20], dtype=torch.int32)
    attention = PackedAttention(cu_seqlens, 16)
    results = []
    for road in (attention._one_by_one, attention._padded):
        q, k, v = (
            torch.linspace(-2, 2, 20 * 2 * 8).view(20, 2, 8).roll(i).requires_grad_() for i in range(3)
        )
        mixed = road(q, k, v, 0.0)
        (mixed * torch.linspace(-1, 1, mixed.numel()).view_as(mixed)).sum().backward()
        results.append((mixed, q.grad, k.grad, v.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_more_than_65_536_tokens_fit_into_one_batch() -> None:
    # Kernels that count tokens in 16 bits overflow there; the last sequence must be as good as alone.
    torch.manual_seed(0)
    encoder = Encoder(
        dataclasses.replace(TINY, layers=1, width=8, heads=1, feed_forward=8, positions=1024)
    ).eval()
    ids = [torch.randint(1, 97, (n,)).tolist() for n in (*[1000] * 66, 17)]
    packed, alone = PackedSequences.of(ids), PackedSequences.of(ids[-1:])
    with torch.inference_mode():
        together = encoder.forward_packed(*packed.arguments)
        assert together.shape[0] > 65_536 and torch.isfinite(together).all()
        expected = encoder.forward_packed(*alone.arguments)
    torch.testing.assert_close(together[-17:], expected, rtol=0, atol=1e-5)


def test_a_row_that_is_padding_only_stays_finite_in_values_and_gradients() -> None:
    # A softmax over no key is NaN, and 0 * NaN in the backward pass would spread it to every parameter.
    model = tiny_model().train()
    ids, mask, types = padded_batch()
    mask = mask.clone()
    mask[3] = 0
    hidden = model.encoder(ids, mask, types)
    hidden[mask.bool()].square().sum().backward()
    assert torch.isfinite(hidden).all()
    assert all(torch.isfinite(p.grad).all() for p in model.encoder.parameters() if p.grad is not None)


def test_padding_changes_nothing_for_real_tokens() -> None:
    model = tiny_model().eval()
    ids, mask, types = padded_batch()
    alone = model.encoder(ids[2:3, :17], None, types[2:3, :17])
    together = model.encoder(ids, mask, types)[2:3, :17]
    torch.testing.assert_close(alone, together, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "changes", [{"dropout": 0.5}, {"attention_dropout": 0.5}], ids=lambda c: next(iter(c))
)
def test_each_dropout_acts_in_training_and_only_there(changes: dict[str, float]) -> None:
    model = tiny_model(**({"dropout": 0.0, "attention_dropout": 0.0} | changes))
    ids, mask, types = padded_batch()
    packed = packed_batch()
    for run in (
        lambda: model.encoder(ids, mask, types),
        lambda: model.encoder.forward_packed(*packed.arguments),
    ):
        model.train()
        assert not torch.equal(run(), run())
        model.eval()
        assert torch.equal(run(), run())


def test_without_dropout_training_and_evaluation_agree_to_the_bit() -> None:
    model = tiny_model(dropout=0.0, attention_dropout=0.0)
    packed = packed_batch()
    assert torch.equal(
        model.train().encoder.forward_packed(*packed.arguments),
        model.eval().encoder.forward_packed(*packed.arguments),
    )


def test_weights_start_as_a_normal_cut_at_two_standard_deviations() -> None:
    # A normal cut at two standard deviations keeps 0.8796 of its own.
    torch.manual_seed(0)
    model = PretrainingModel(
        BertConfig(vocabulary_size=2_000, layers=2, width=128, heads=2, feed_forward=512)
    )
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding) and module.weight.numel() > 10_000:
            assert module.weight.std().item() == pytest.approx(0.02 * 0.8796, rel=0.02)
            assert module.weight.abs().max().item() <= 0.04
        if isinstance(module, nn.Linear):
            assert not module.bias.any()
    assert not model.masked_language_head.bias.any()


def test_the_masked_language_head_sees_the_given_positions_only() -> None:
    model = tiny_model().eval()
    packed = packed_batch()
    chosen = torch.tensor([3, 44, 0])
    everywhere = model.forward_packed(*packed.arguments, torch.arange(len(packed.input_ids_T)))
    only = model.forward_packed(*packed.arguments, chosen)
    assert only.masked_language_MV.shape == (3, 97)
    torch.testing.assert_close(only.masked_language_MV, everywhere.masked_language_MV[chosen])
    ids, mask, types = padded_batch()
    from_padded = model(ids, mask, types, masked_positions_M=torch.tensor([3]))
    torch.testing.assert_close(from_padded.masked_language_MV, only.masked_language_MV[:1], rtol=0, atol=1e-5)


def test_the_decoder_is_the_word_embedding_with_a_bias_of_its_own() -> None:
    model = tiny_model()
    names = {name for name, _ in model.named_parameters() if name.startswith("masked_language_head.")}
    assert names == {
        f"masked_language_head.{n}"
        for n in ("bias", "dense.weight", "dense.bias", "norm.weight", "norm.bias")
    }
    model(*padded_batch()).masked_language_MV.sum().backward()
    unseen = 96 if 96 not in padded_batch()[0] else 0
    assert model.encoder.embeddings.words.weight.grad[unseen].any(), (
        "a word outside the input gets its gradient as output"
    )


def test_parameters_are_counted_without_being_made() -> None:
    model = tiny_model()
    assert count_parameters(TINY) == sum(p.numel() for p in model.parameters())
    without = count_parameters(TINY, next_sentence=False)
    assert count_parameters(TINY) - without == (48 * 48 + 48) + (48 * 2 + 2)  # pooler, next-sentence head


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"heads": 5}, "width 48 cannot be shared out among 5 heads"),
        ({"activation": "relu"}, "gelu, gelu_new"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"dropout": 1.0}, "dropout must lie in"),
    ],
)
def test_an_impossible_configuration_is_refused_by_name(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        dataclasses.replace(TINY, **changes)


def test_it_compiles_as_one_static_graph_with_the_same_values_and_gradients() -> None:
    # backend "eager" traces fully (fullgraph refuses any break or data-dependent branch) without a C++ compiler.
    model = tiny_model().eval()
    packed = packed_batch()
    arguments = (*packed.arguments, torch.tensor([3, 44, 0]))
    results = []
    for forward in (
        model.forward_packed,
        torch.compile(model.forward_packed, dynamic=False, fullgraph=True, backend="eager"),
    ):
        model.zero_grad()
        logits = forward(*arguments)
        (logits.masked_language_MV.square().sum() + logits.next_sentence_N2.square().sum()).backward()
        results.append([logits.masked_language_MV, *(p.grad for p in model.parameters())])
    for compiled, eager in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-4)
    ids, mask, types = padded_batch()
    padded = torch.compile(model.encoder, dynamic=False, fullgraph=True, backend="eager")
    torch.testing.assert_close(padded(ids, mask, types), model.encoder(ids, mask, types), rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.skipif(" " in torch.__file__, reason="inductor cannot link from a path with spaces")
def test_it_compiles_with_inductor() -> None:
    model = tiny_model(layers=1).eval()
    packed = packed_batch()
    compiled = torch.compile(model.encoder.forward_packed, dynamic=False, fullgraph=True)
    torch.testing.assert_close(
        compiled(*packed.arguments), model.encoder.forward_packed(*packed.arguments), rtol=0, atol=1e-5
    )


def test_sixteen_bit_parameters_work_on_both_roads() -> None:
    model = tiny_model().eval().to(torch.bfloat16)
    ids, mask, types = padded_batch()
    from_padded = model.encoder(ids, mask, types)[mask.bool()]
    from_packed = model.encoder.forward_packed(*packed_batch().arguments)
    assert from_packed.dtype == torch.bfloat16
    torch.testing.assert_close(from_packed, from_padded, rtol=0.1, atol=0.1)


def test_a_mask_may_be_boolean_or_of_integers() -> None:
    _, mask, _ = padded_batch()
    from_integers, from_booleans = PaddedAttention.of(mask), PaddedAttention.of(mask.bool())
    assert from_integers.visible_B11L is not None and from_booleans.visible_B11L is not None
    assert torch.equal(from_integers.visible_B11L, from_booleans.visible_B11L)


def test_an_encoder_without_a_pooler_has_none_of_its_parameters() -> None:
    assert Encoder(TINY, pooler=False).pooler is None
    assert not any("pooler" in name for name, _ in Encoder(TINY, pooler=False).named_parameters())


def test_sinusoidal_positions_depend_on_the_distance_alone_before_they_are_centred() -> None:
    table = sinusoidal_positions(64, 16, 0.02)
    assert table.shape == (64, 16)
    assert float(table.std()) == pytest.approx(0.02) and float(table.mean(0).abs().max()) < 1e-8
    # Centring takes the same vector from all, so differences of rows are still those of sines and cosines: the squared
    # distance of two rows is the same wherever they stand.
    distances = torch.cdist(table.double(), table.double())
    for apart in (1, 5, 20):
        along = distances.diagonal(apart)
        assert float(along.max() - along.min()) < 1e-5
    first = table[1, 0] - table[0, 0], table[2, 0] - table[0, 0]  # column 0: the sine of the position itself
    assert float(first[1] / first[0]) == pytest.approx(math.sin(2) / math.sin(1), rel=1e-4)


def test_a_fresh_model_starts_with_sinusoids_as_wide_as_its_other_embeddings() -> None:
    model = tiny_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    embeddings = next(part for part in model.modules() if isinstance(part, Embeddings))
    start_sinusoidal(model)
    rows, width = embeddings.positions.weight.shape
    spread = float(before["encoder.embeddings.positions.weight"].std())
    torch.testing.assert_close(embeddings.positions.weight.data, sinusoidal_positions(rows, width, spread))
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    assert changed == ["encoder.embeddings.positions.weight"]
