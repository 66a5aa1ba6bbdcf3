"""ELECTRA in, ELECTRA out: discriminator and generator, equal bits, equal logits, clear refusals."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from biosmith.errors import BadInput, UsageError
from biosmith.models import load_encoder, load_pretraining_model, save_model
from biosmith.models.bert import PretrainingModel
from biosmith.models.checkpoint import load_discriminator
from biosmith.models.electra import Discriminator, ElectraConfig, ElectraModel
from models.checks import packed_batch, padded_batch
from models.factorised_checks import TINY_ELECTRA, shaken, write_factorised
from models.test_hugging_face import assert_same_folder

LOAD = {
    "ElectraForPreTraining": load_discriminator,
    "ElectraForMaskedLM": load_pretraining_model,
    "ElectraModel": load_encoder,
}


@pytest.mark.parametrize("embedding_size", [20, 48])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", LOAD)
def test_a_folder_read_and_written_again_is_equal_bit_for_bit(
    kind: str, dtype: torch.dtype, embedding_size: int, tmp_path: Path
) -> None:
    # Embeddings as wide as the model have no projection (ELECTRA-base); narrower ones have (ELECTRA-small).
    source = write_factorised(tmp_path / "source", kind, dtype=dtype, embedding_size=embedding_size)
    model, config = LOAD[kind](source)  # type: ignore[operator]
    assert isinstance(config, ElectraConfig) and config.embedding_width == embedding_size
    assert_same_folder(source, save_model(tmp_path / "again", model))


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
@pytest.mark.parametrize("embedding_size", [20, 48])
def test_logits_of_the_discriminator_equal_those_of_transformers(
    embedding_size: int, activation: str, tmp_path: Path
) -> None:
    source = write_factorised(
        tmp_path / "s", "ElectraForPreTraining", embedding_size=embedding_size, hidden_act=activation
    )
    theirs = transformers.ElectraForPreTraining.from_pretrained(source).eval()
    ours, _ = load_discriminator(source)
    ids, mask, types = padded_batch()
    with torch.inference_mode():
        expected = theirs(input_ids=ids, attention_mask=mask, token_type_ids=types).logits[mask.bool()]
        got = ours(ids, mask, types)[mask.bool()]
        packed = ours.forward_packed(*packed_batch().arguments)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(packed, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_logits_of_the_generator_equal_those_of_transformers(activation: str, tmp_path: Path) -> None:
    # Its head has the exact GELU whatever the layers have, and projects to the width of the embeddings.
    source = write_factorised(tmp_path / "s", "ElectraForMaskedLM", hidden_act=activation)
    theirs = transformers.ElectraForMaskedLM.from_pretrained(source).eval()
    ours, _ = load_pretraining_model(source)
    assert ours.masked_language_head.dense.weight.shape == (20, 48)
    ids, mask, types = padded_batch()
    with torch.inference_mode():
        expected = theirs(input_ids=ids, attention_mask=mask, token_type_ids=types).logits[mask.bool()]
        got = ours(ids, mask, types).masked_language_MV[mask.bool()]
        packed = packed_batch()
        from_packed = ours.forward_packed(*packed.arguments, torch.arange(len(packed.input_ids_T)))
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(from_packed.masked_language_MV, expected, rtol=0, atol=1e-5)


def test_both_networks_of_ours_have_equal_logits_in_transformers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ElectraModel(TINY_ELECTRA, dataclasses.replace(TINY_ELECTRA, width=16, heads=2, feed_forward=64))
    shaken(model.eval())
    ids, mask, types = padded_batch()
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    folders = [
        save_model(tmp_path / name, network)
        for name, network in (("discriminator", model.discriminator), ("generator", model.generator))
    ]
    one, report = transformers.AutoModelForPreTraining.from_pretrained(folders[0], output_loading_info=True)
    other, report_2 = transformers.AutoModelForMaskedLM.from_pretrained(folders[1], output_loading_info=True)
    assert type(one).__name__ == "ElectraForPreTraining" and type(other).__name__ == "ElectraForMaskedLM"
    for found in (report, report_2):
        assert not any(found[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.inference_mode():
        replaced, masked = one.eval()(**inputs).logits, other.eval()(**inputs).logits
        got = model.discriminator(ids, mask, types)
        got_masked = model.generator(ids, mask, types).masked_language_MV
    torch.testing.assert_close(got[mask.bool()], replaced[mask.bool()], rtol=0, atol=1e-5)
    torch.testing.assert_close(got_masked[mask.bool()], masked[mask.bool()], rtol=0, atol=1e-5)
    tables = [
        load_file(folder / "model.safetensors")["electra.embeddings.word_embeddings.weight"]
        for folder in folders
    ]
    assert torch.equal(*tables)


def test_missing_heads_are_named_and_those_of_the_other_network_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_factorised(tmp_path / "source", "ElectraForMaskedLM")
    model, _ = load_discriminator(source)
    assert isinstance(model, Discriminator) and model.encoder.origin is not None
    assert model.encoder.origin.initialised == ("replaced_token_head",)
    assert "has no replaced_token_head" in capsys.readouterr().err
    assert all(name.startswith("generator_") for name in model.encoder.origin.unused)
    again = save_model(tmp_path / "again", model)
    assert json.loads((again / "config.json").read_text())["architectures"] == ["ElectraForPreTraining"]


def test_what_this_encoder_does_not_compute_is_refused(tmp_path: Path) -> None:
    source = write_factorised(tmp_path / "source", "ElectraForPreTraining")
    file = source / "config.json"
    whole = json.loads(file.read_text())
    for changes, words in (
        ({"hidden_act": "relu"}, "'relu'.*valid: gelu, gelu_new"),
        ({"position_embedding_type": "relative_key"}, "relative_key.*valid: absolute"),
        ({"tie_word_embeddings": False}, "the decoder is not tied"),
        ({"hidden_size": 50}, "width 50 cannot be shared out among 4 heads"),
        ({"embedding_size": 19}, r"asks for \(97, 19\)"),
    ):
        file.write_text(json.dumps(whole | changes))
        with pytest.raises(BadInput, match=words):
            load_discriminator(source)
    file.write_text(json.dumps(whole))
    bert = tmp_path / "bert"
    transformers.BertModel(
        transformers.BertConfig(
            vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4
        )
    ).save_pretrained(bert)
    with pytest.raises(UsageError, match="is a bert model, not an electra one"):
        load_discriminator(bert)
    with pytest.raises(UsageError, match="electra model, which has no next-sentence head"):
        load_pretraining_model(source, next_sentence=True)
    with pytest.raises(UsageError, match="no pooler and no next-sentence head"):
        PretrainingModel(TINY_ELECTRA, next_sentence=True)


def test_networks_that_cannot_share_embeddings_are_refused_with_the_field() -> None:
    # A width of 64 and one of 256 have been mixed up more than once: the generator's own width is free, the
    # embeddings' is not.
    with pytest.raises(UsageError, match="embedding_width is 20 and 24"):
        ElectraModel(TINY_ELECTRA, dataclasses.replace(TINY_ELECTRA, embedding_width=24))


@pytest.mark.parametrize(
    ("width", "heads", "layers", "share", "generator"),
    [
        # google-research/electra, configure_pretraining.py and pretrain_helpers.py: a quarter of the width in small and
        # large, 0.33333 in base (768 * 0.33333 rounds to 256); all layers; heads of 64; feed-forward of 4 widths.
        (256, 4, 12, 0.25, (64, 12, 1, 256)),
        (768, 12, 12, 0.33333, (256, 12, 4, 1_024)),
        (1_024, 16, 24, 0.25, (256, 24, 4, 1_024)),
    ],
)
def test_generators_are_those_of_the_original_rule(
    width: int, heads: int, layers: int, share: float, generator: tuple[int, ...]
) -> None:
    config = ElectraConfig(width=width, heads=heads, layers=layers, feed_forward=4 * width)
    found = config.generator(share, 1.0)
    assert (found.width, found.layers, found.heads, found.feed_forward) == generator
    assert found.embedding_width == config.embedding_width
    assert config.generator(share, 1 / 3).layers == layers // 3
