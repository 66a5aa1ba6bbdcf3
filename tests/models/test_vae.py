"""The latent-variable model: injection beside a reference decoder, packed beside padded, gradients, folders."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

from biosmith.models.bert import BertConfig
from biosmith.models.gpt2 import Decoder, Gpt2Config, Injected
from biosmith.models.gpt2_names import config_to_hugging_face, to_hugging_face
from biosmith.models.memory_attention import CachedAttention, PackedLayout
from biosmith.models.packed import PackedSequences
from biosmith.models.vae import (
    DecoderTokens,
    EncoderTokens,
    VaeConfig,
    VariationalAutoencoder,
    count_parameters,
)

ENCODER = BertConfig(
    vocabulary_size=40,
    layers=2,
    width=16,
    heads=2,
    feed_forward=32,
    positions=32,
    dropout=0,
    attention_dropout=0,
)
DECODER = Gpt2Config(
    vocabulary_size=30,
    layers=3,
    width=24,
    heads=4,
    positions=32,
    dropout=0,
    attention_dropout=0,
    pad_id=0,
    begin_id=1,
    end_id=2,
    initializer_range=0.2,
)
CONFIG = VaeConfig(latent_size=5, encoder=ENCODER, decoder=DECODER)


@pytest.fixture
def model() -> VariationalAutoencoder:
    torch.manual_seed(3)
    return VariationalAutoencoder(CONFIG).eval()


def reference(decoder: Decoder) -> GPT2LMHeadModel:
    """transformers' own GPT-2 with the same weights."""
    raw = config_to_hugging_face(decoder.config, torch.float32)
    theirs = GPT2LMHeadModel(
        GPT2Config(**{k: v for k, v in raw.items() if k not in ("architectures", "dtype")})
    )
    missing, unexpected = theirs.load_state_dict(to_hugging_face(decoder), strict=False)
    assert set(missing) <= {"lm_head.weight"}
    assert not unexpected
    theirs.tie_weights()
    return theirs.eval()


def reference_logits(theirs: GPT2LMHeadModel, ids: Tensor, z: Injected) -> Tensor:
    """The way of OPTIMUS: the memory as a past of one position, positions from 1, an embedding added to each token."""
    cache = DynamicCache()
    first = 0
    if z.memory_LND is not None:
        first = 1
        for layer, memory in enumerate(z.memory_LND):
            rows = memory.unflatten(-1, (theirs.config.n_head, -1))[:, :, None]
            cache.update(rows, rows, layer)
    embedded = theirs.transformer.wte(ids)
    if z.embedding_ND is not None:
        embedded = embedded + z.embedding_ND[:, None]
    key = (
        "cache" if "cache" in inspect.signature(theirs.transformer.forward).parameters else "past_key_values"
    )
    arguments: dict[str, Any] = {key: cache} if first else {}
    out = theirs(
        inputs_embeds=embedded,
        position_ids=torch.arange(first, first + ids.shape[1])[None],
        attention_mask=torch.ones(ids.shape[0], ids.shape[1] + first),
        use_cache=bool(first),
        **arguments,
    )
    return out.logits


@pytest.mark.parametrize(
    ("memory", "embedding"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_injection_equals_a_reference_decoder_with_and_without_cache(memory: bool, embedding: bool) -> None:
    # transformers computes what OPTIMUS computes: the memory is a past of length 1 that is key and value alike.
    torch.manual_seed(1)
    config = VaeConfig(latent_size=5, memory=memory, embedding=embedding, encoder=ENCODER, decoder=DECODER)
    model = VariationalAutoencoder(config).eval()
    ids = torch.randint(3, 30, (4, 9))
    with torch.no_grad():
        z = model.inject(torch.randn(4, 5) * 3)
        expected = reference_logits(reference(model.decoder), ids, z)
        whole = model.decoder.logits(model.decoder(ids, z))
        cache = CachedAttention()
        steps = [
            model.decoder.logits(model.decoder.forward_cached(ids[:, i : i + 1], cache, z)) for i in range(9)
        ]
        cache = CachedAttention()
        parts = [
            model.decoder.logits(model.decoder.forward_cached(part, cache, z))
            for part in ids.split([4, 5], 1)
        ]
    torch.testing.assert_close(whole, expected, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(torch.cat(steps, 1), expected, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(torch.cat(parts, 1), expected, atol=2e-5, rtol=1e-4)


def test_the_memory_changes_what_is_said(model: VariationalAutoencoder) -> None:
    # A test of injection is worth nothing if the latent vector had no influence.
    ids = torch.randint(3, 30, (1, 6))
    with torch.no_grad():
        one, other = (model.decoder(ids, model.inject(torch.randn(1, 5) * 3)) for _ in range(2))
    assert (one - other).abs().max() > 0.1


def pack(
    sentences: list[list[int]], encoder: list[list[int]], rest: int = 0
) -> tuple[EncoderTokens, DecoderTokens]:
    packed = PackedSequences.of(encoder)
    lengths = [*(len(s) + 1 for s in sentences), *([rest] if rest else [])]
    ids = [t for s in sentences for t in (1, *s)] + [0] * rest
    labels = [t for s in sentences for t in (*s, 2)] + [-100] * rest
    ends = np.concatenate([[0], np.cumsum(lengths)])
    layout = PackedLayout(
        torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths)),
        torch.from_numpy(ends.astype(np.int32)),
        max(lengths),
    )
    positions = [i + 1 for n in lengths for i in range(n)]
    return (
        EncoderTokens(packed.input_ids_T, packed.position_ids_T, packed.cu_seqlens, packed.max_seqlen),
        DecoderTokens(torch.tensor(ids), torch.tensor(positions), torch.tensor(labels), layout),
    )


SENTENCES = [[5, 6], [7, 8], [9, 10, 11, 12], [13] * 7]
FOR_ENCODER = [[2, 5, 3], [2, 6, 3], [2, 7, 8, 9, 3], [2, 9, 3]]


def test_packed_sentences_give_what_each_gives_alone(model: VariationalAutoencoder) -> None:
    # No sentence may see another one, nor another one's memory; neighbours of equal length share one call.
    encoder, decoder = pack(SENTENCES, FOR_ENCODER)
    with torch.no_grad():
        posterior = model.encode_packed(encoder)
        hidden = model.decode_packed(decoder, posterior.mean_NZ)
        for number, (sentence, ids) in enumerate(zip(SENTENCES, FOR_ENCODER, strict=True)):
            alone = model.encode(torch.tensor([ids]))
            torch.testing.assert_close(alone.mean_NZ[0], posterior.mean_NZ[number], atol=1e-5, rtol=1e-4)
            expected = model.decoder(torch.tensor([[1, *sentence]]), model.inject(alone.mean_NZ))[0]
            start = int(decoder.layout.cu_seqlens[number])
            found = hidden[start : start + len(sentence) + 1]
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_padding_changes_neither_posterior_nor_likelihood(model: VariationalAutoencoder) -> None:
    # The original encodes padding in its importance-weighted bound, and takes id 0 for padding whatever the vocabulary.
    ids = torch.tensor([[2, 5, 6, 3]])
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]])
    padded = torch.tensor([[2, 5, 6, 3, 17, 0]])
    with torch.no_grad():
        alone, beside = model.encode(ids), model.encode(padded, mask)
        torch.testing.assert_close(beside.mean_NZ, alone.mean_NZ)
        z = alone.mean_NZ
        one = model.log_likelihood(torch.tensor([[1, 7, 8]]), torch.tensor([[7, 8, 2]]), z)
        other = model.log_likelihood(
            torch.tensor([[1, 7, 8, 9, 9]]), torch.tensor([[7, 8, 2, -100, -100]]), z
        )
    torch.testing.assert_close(one, other)


def test_a_token_with_id_0_that_is_no_padding_is_read(model: VariationalAutoencoder) -> None:
    with torch.no_grad():
        one = model.encode(torch.tensor([[2, 0, 3]])).mean_NZ
        mask = torch.tensor([[1, 0, 1]])
        other = model.encode(torch.tensor([[2, 0, 3]]), mask).mean_NZ
    assert (one - other).abs().max() > 1e-5


def test_the_padded_road_of_packed_attention_gives_the_same(
    model: VariationalAutoencoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A CUDA device in 32 bits, and a compiled CPU, take it.
    _, decoder = pack(SENTENCES, FOR_ENCODER, rest=3)
    with torch.no_grad():
        z = torch.randn(5, 5)
        expected = model.decode_packed(decoder, z)
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
        found = model.decode_packed(decoder, z)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_the_gradient_through_the_reordered_rows_is_right() -> None:
    # gradcheck compares with finite differences; float64.
    from biosmith.models.memory_attention import MemoryAttention

    torch.manual_seed(0)
    layout = PackedLayout(torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 2, 5], dtype=torch.int32), 3)
    qkv = torch.randn(5, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda q, m: MemoryAttention(layout)(q, m, 0.0), (qkv, memory))


def test_a_wrong_latent_size_is_refused(model: VariationalAutoencoder) -> None:
    with pytest.raises(Exception, match="latent vectors have 7 dimensions, the model has 5"):
        model.inject(torch.zeros(1, 7))


def test_a_decoder_conditioned_on_nothing_has_no_encoder() -> None:
    config = VaeConfig(latent_size=5, memory=False, embedding=False, encoder=ENCODER, decoder=DECODER)
    model = VariationalAutoencoder(config)
    assert model.encoder is None
    assert count_parameters(config) == sum(p.numel() for p in model.decoder.parameters())


def test_the_published_size_has_as_many_parameters_as_bert_and_gpt2() -> None:
    # BERT-base 109.48M, GPT-2 124.44M (50,257 pieces; 3 more here), projections 2*32*768 + 32*768*12 + 32*768.
    projections = 2 * 32 * 768 + 32 * 768 * 12 + 32 * 768
    assert count_parameters(VaeConfig()) == 109_482_240 + 124_439_808 + 3 * 768 + projections


def test_latent_vectors_of_all_sizes_begin_with_one_scale() -> None:
    """768 dimensions with the scale of 32 drown the words at the start, and the posterior collapses."""
    torch.manual_seed(0)
    encoder = BertConfig(vocabulary_size=20, layers=1, width=64, heads=2, feed_forward=64, positions=16)
    decoder = Gpt2Config(
        vocabulary_size=20, layers=2, width=64, heads=2, positions=16, pad_id=0, begin_id=1, end_id=2
    )
    for latent in (32, 768):
        model = VariationalAutoencoder(VaeConfig(latent_size=latent, encoder=encoder, decoder=decoder))
        added = model.inject(torch.randn(512, latent))
        assert added.embedding_ND is not None
        assert added.embedding_ND.std().item() == pytest.approx(32**0.5 * 0.02, rel=0.1)
