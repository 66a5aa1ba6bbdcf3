"""MegatronBert in, MegatronBert out: equal bits, equal logits, clear refusals; and the pre-LN encoder itself."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from biosmith.errors import BadInput, UsageError
from biosmith.models import load_encoder, load_pretraining_model, save_model
from biosmith.models.megatron import MegatronConfig, padded_like
from models.checks import packed_batch, padded_batch
from models.megatron_checks import TINY_MEGATRON, tiny_megatron, write_megatron_bert
from models.test_hugging_face import assert_same_folder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "kind", ["MegatronBertForPreTraining", "MegatronBertForMaskedLM", "MegatronBertModel"]
)
def test_a_folder_read_and_written_again_is_equal_bit_for_bit(
    kind: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    source = write_megatron_bert(tmp_path / "source", kind, dtype=dtype)
    load = load_encoder if kind == "MegatronBertModel" else load_pretraining_model
    model, config = load(source)
    assert isinstance(config, MegatronConfig)
    assert_same_folder(source, save_model(tmp_path / "again", model))


@pytest.mark.parametrize(
    "changes",
    [{}, {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5}, {"vocab_size": 128, "type_vocab_size": 3}],
    ids=["transformers' defaults", "Megatron's", "three segments"],
)
def test_logits_equal_those_of_transformers_on_a_folder_of_theirs(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    source = write_megatron_bert(tmp_path / "source", **changes)
    theirs = transformers.MegatronBertForPreTraining.from_pretrained(source).eval()
    ours, _ = load_pretraining_model(source)
    ids, mask, types = padded_batch()
    packed, real = packed_batch(), mask.bool()
    with torch.inference_mode():
        expected = theirs(input_ids=ids, attention_mask=mask, token_type_ids=types)
        got = ours(ids, mask, types)
        from_packed = ours.forward_packed(*packed.arguments, torch.arange(len(packed.input_ids_T)))
    for ours_found in (got.masked_language_MV[real], from_packed.masked_language_MV):
        torch.testing.assert_close(ours_found, expected.prediction_logits[real], rtol=1e-5, atol=1e-5)
    for ours_found in (got.next_sentence_N2, from_packed.next_sentence_N2):
        torch.testing.assert_close(ours_found, expected.seq_relationship_logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pairs", [True, False])
def test_a_model_of_ours_has_equal_logits_in_transformers_padding_rows_included(
    pairs: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = tiny_megatron().eval()
    if not pairs:
        model.next_sentence_head, model.encoder.pooler = None, None
    folder = save_model(tmp_path / "model", model)
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    # Hugging Face counts rows; 97 pieces stand in 128.
    assert (raw["vocab_size"], raw["model_type"]) == (128, "megatron-bert")
    kind = "MegatronBertForPreTraining" if pairs else "MegatronBertForMaskedLM"
    theirs, report = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert raw["architectures"] == [kind]
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids, mask, types = padded_batch()
    with torch.inference_mode():
        found = theirs.eval()(input_ids=ids, attention_mask=mask, token_type_ids=types)
        expected = (found.prediction_logits if pairs else found.logits)[mask.bool()]
        got = model(ids, mask, types).masked_language_MV[mask.bool()]
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    again, _ = load_pretraining_model(folder)
    assert_same_folder(folder, save_model(tmp_path / "again", again))


def test_what_another_computation_would_need_is_refused_by_name(tmp_path: Path) -> None:
    source = write_megatron_bert(tmp_path / "source")
    file = source / "config.json"
    raw = json.loads(file.read_text(encoding="utf-8"))
    for key, value in (("is_decoder", True), ("hidden_act", "relu"), ("tie_word_embeddings", False)):
        file.write_text(json.dumps({**raw, key: value}), encoding="utf-8")
        with pytest.raises(BadInput, match=str(value)):
            load_encoder(source)


def test_rows_are_the_pieces_padded_to_the_multiple() -> None:
    # The released BioMegatron models: 30,522 pieces in 30,592 rows (uncased), 28,996 in 29,056 (cased).
    for pieces, rows in ((30_522, 30_592), (28_996, 29_056), (30_592, 30_592)):
        config = MegatronConfig(vocabulary_size=pieces)
        assert config.rows == rows
        assert padded_like(config, rows) == config
    # Megatron pads to 128 times the number of devices: eight of them make 30,720 rows of 30,522 pieces.
    assert padded_like(MegatronConfig(), 30_720).rows == 30_720
    assert padded_like(MegatronConfig(), 30_600).rows == 30_600
    with pytest.raises(UsageError, match="30,000 rows cannot hold 30,522 pieces"):
        padded_like(MegatronConfig(), 30_000)


def test_matrices_that_end_a_block_start_smaller_by_the_root_of_twice_the_layers() -> None:
    torch.manual_seed(3)
    from biosmith.models.bert import PretrainingModel

    config = MegatronConfig(vocabulary_size=2_000, layers=8, width=256, heads=4, feed_forward=1_024)
    model = PretrainingModel(config)
    scaled = 0.02 / math.sqrt(16)
    for layer in model.encoder.layers:
        for name, expected in (
            ("attention.qkv", 0.02),
            ("attention.output", scaled),
            ("feed_forward.up", 0.02),
            ("feed_forward.down", scaled),
        ):
            weight = layer.get_submodule(name).weight
            # 65,536 numbers at least: the standard error of their deviation is 0.3 %.
            assert weight.std().item() == pytest.approx(expected, rel=0.02), name
    words = model.encoder.embeddings.words.weight
    assert words.std().item() == pytest.approx(0.02, rel=0.02)
    assert words.abs().max() > 0.06  # not cut at two deviations, as BERT's are
    assert not model.masked_language_head.bias.any()


def test_the_residual_stream_is_normalised_at_the_end_only() -> None:
    model = tiny_megatron(layers=1).eval()
    encoder = model.encoder
    packed = packed_batch()
    ids, positions, types = packed.arguments[:3]
    words, places, kinds = encoder.embeddings.words, encoder.embeddings.positions, encoder.embeddings.types
    with torch.inference_mode():
        x = words(ids) + places(positions) + kinds.weight[types]
        torch.testing.assert_close(encoder.embeddings(ids, positions, types), x)
        for block in (encoder.layers[0].attention.output, encoder.layers[0].feed_forward.down):
            block.weight.zero_(), block.bias.zero_()
        torch.testing.assert_close(encoder.forward_packed(*packed.arguments), encoder.final_norm(x))
    assert TINY_MEGATRON.rows == 128
