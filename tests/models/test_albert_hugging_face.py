"""ALBERT in, ALBERT out: equal bits, equal logits, one layer for all."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
import transformers

from biosmith.errors import BadInput
from biosmith.models import load_encoder, load_pretraining_model, save_model
from biosmith.models.albert import AlbertConfig, AlbertEncoder
from biosmith.models.bert import PretrainingModel, count_parameters
from biosmith.models.fused import encode
from models.checks import packed_batch, padded_batch
from models.factorised_checks import TINY_ALBERT, shaken, write_factorised
from models.test_hugging_face import assert_same_folder


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["AlbertForPreTraining", "AlbertForMaskedLM", "AlbertModel"])
def test_a_folder_read_and_written_again_is_equal_bit_for_bit(
    kind: str, dtype: torch.dtype, groups: int, tmp_path: Path
) -> None:
    source = write_factorised(tmp_path / "source", kind, dtype=dtype, num_hidden_groups=groups)
    model, config = (load_encoder if kind == "AlbertModel" else load_pretraining_model)(source)
    assert isinstance(config, AlbertConfig) and config.groups == groups
    assert_same_folder(source, save_model(tmp_path / "again", model))


@pytest.mark.parametrize(
    "changes",
    [{}, {"hidden_act": "gelu"}, {"num_hidden_groups": 2}, {"num_hidden_groups": 3, "num_hidden_layers": 5}],
    ids=["tanh", "erf", "two groups", "uneven groups"],
)
def test_logits_equal_those_of_transformers_on_a_folder_of_theirs(
    changes: dict[str, object], tmp_path: Path
) -> None:
    source = write_factorised(tmp_path / "source", "AlbertForPreTraining", **changes)
    theirs = transformers.AlbertForPreTraining.from_pretrained(source).eval()
    ours, _ = load_pretraining_model(source)
    ids, mask, types = padded_batch()
    real = mask.bool()
    with torch.inference_mode():
        expected = theirs(input_ids=ids, attention_mask=mask, token_type_ids=types)
        got = ours(ids, mask, types)
        packed = packed_batch()
        from_packed = ours.forward_packed(*packed.arguments, torch.arange(len(packed.input_ids_T)))
    torch.testing.assert_close(
        got.masked_language_MV[real], expected.prediction_logits[real], rtol=0, atol=1e-5
    )
    torch.testing.assert_close(
        from_packed.masked_language_MV, expected.prediction_logits[real], rtol=0, atol=1e-5
    )
    torch.testing.assert_close(got.next_sentence_N2, expected.sop_logits, rtol=0, atol=1e-5)
    torch.testing.assert_close(from_packed.next_sentence_N2, expected.sop_logits, rtol=0, atol=1e-5)


def test_a_model_of_ours_has_equal_logits_in_transformers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = PretrainingModel(TINY_ALBERT)
    shaken(model.eval())
    folder = save_model(tmp_path / "model", model)
    theirs, report = transformers.AutoModelForPreTraining.from_pretrained(folder, output_loading_info=True)
    assert type(theirs).__name__ == "AlbertForPreTraining"
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids, mask, types = padded_batch()
    with torch.inference_mode():
        expected = theirs.eval()(input_ids=ids, attention_mask=mask, token_type_ids=types)
        got = model(ids, mask, types)
    real = mask.bool()
    torch.testing.assert_close(
        got.masked_language_MV[real], expected.prediction_logits[real], rtol=0, atol=1e-5
    )
    torch.testing.assert_close(got.next_sentence_N2, expected.sop_logits, rtol=0, atol=1e-5)


def test_layers_are_shared_not_copied() -> None:
    # Lan et al. (2020), Table 1: 12 layers cost no more parameters than one.
    one, twelve = (count_parameters(dataclasses.replace(TINY_ALBERT, layers=n)) for n in (1, 12))
    assert one == twelve
    model = PretrainingModel(TINY_ALBERT)
    assert len(list(model.encoder.in_order())) == 4 and len(model.encoder.layers) == 1
    assert len({id(layer) for layer in model.encoder.in_order()}) == 1


def test_activation_checkpointing_changes_neither_losses_nor_gradients() -> None:
    # It trades memory for work; dropout is drawn alike again in the backward pass.
    results = []
    for on in (False, True):
        torch.manual_seed(0)
        model = PretrainingModel(dataclasses.replace(TINY_ALBERT, dropout=0.1)).train()
        model.encoder.activation_checkpointing = on
        torch.manual_seed(1)
        packed = packed_batch()
        logits = model.forward_packed(*packed.arguments, torch.arange(len(packed.input_ids_T)))
        logits.masked_language_MV.logsumexp(-1).sum().backward()
        results.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("on", [False, True])
def test_the_fused_layers_compute_the_same_hidden_states_and_gradients(on: bool) -> None:
    results = []
    for fused in (False, True):
        torch.manual_seed(0)
        encoder = AlbertEncoder(TINY_ALBERT).train()
        encoder.activation_checkpointing = on
        arguments = packed_batch().arguments
        hidden = (
            encode(encoder, *arguments, dtype=torch.float32) if fused else encoder.forward_packed(*arguments)
        )
        hidden.square().sum().backward()
        gradients = torch.cat([p.grad.flatten() for p in encoder.parameters() if p.grad is not None])
        results.append((hidden.detach(), gradients))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=0, atol=1e-5)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-3, atol=1e-3)


def test_repeated_layers_inside_a_group_are_refused(tmp_path: Path) -> None:
    source = write_factorised(tmp_path / "source", "AlbertModel")
    file = source / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"inner_group_num": 2}))
    with pytest.raises(BadInput, match=r"inner_group_num is not supported.*2.*valid: 1"):
        load_encoder(source)
