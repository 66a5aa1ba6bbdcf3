"""ModernBERT in, ModernBERT out: equal bits, equal logits, clear refusals."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from biosmith.artefact import load_manifest
from biosmith.errors import BadInput, UsageError
from biosmith.models import load_encoder, load_pretraining_model, save_model
from biosmith.models.converting import convert
from biosmith.models.embedding import encoder
from biosmith.models.modern import ModernConfig, ModernEncoder
from models.checks import packed_batch, padded_batch
from models.modern_checks import TINY_MODERN, VARIANTS, tiny_modern, write_modernbert
from models.test_hugging_face import SENTENCES, assert_same_folder

# The keys of transformers 5 are written by transformers; published models have those of transformers 4.
PUBLISHED = {"global_attn_every_n_layers": 2, "global_rope_theta": 500.0, "local_rope_theta": 20.0}


def as_published(folder: Path, **changes: Any) -> Path:
    """A folder's configuration in the form of the published models, other keys of theirs included."""
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    for key in ("layer_types", "rope_parameters", "dtype"):
        del config[key]
    config |= PUBLISHED | {"torch_dtype": "float32", "position_embedding_type": "absolute"}
    config |= {"layer_norm_eps": 1e-05, "gradient_checkpointing": False} | changes
    file.write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["ModernBertForMaskedLM", "ModernBertModel"])
def test_a_folder_read_and_written_again_is_equal_bit_for_bit(
    kind: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    source = write_modernbert(tmp_path / "source", kind, dtype=dtype)
    load = load_encoder if kind == "ModernBertModel" else load_pretraining_model
    model, config = load(source)
    assert isinstance(config, ModernConfig)
    assert_same_folder(source, save_model(tmp_path / "again", model))


def test_a_folder_in_the_published_form_is_equal_bit_for_bit_with_what_it_leaves_out(tmp_path: Path) -> None:
    source = as_published(write_modernbert(tmp_path / "source"), local_attention=128)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    # Left out because they are transformers' defaults; the tied decoder is there twice in some files.
    for key in ("local_attention", "decoder_bias", "norm_eps", "mlp_dropout", "hidden_activation"):
        del config[key]
    (source / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tensors = load_file(source / "model.safetensors")
    tensors["decoder.weight"] = tensors["model.embeddings.tok_embeddings.weight"].clone()
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    model, found = load_pretraining_model(source)
    assert (found.local_attention, found.global_every, found.global_theta) == (128, 2, 500.0)
    assert_same_folder(source, save_model(tmp_path / "again", model))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True},
        {"decoder_bias": False, "sparse_prediction": True},
        {"hidden_activation": "gelu_new", "classifier_activation": "gelu_pytorch_tanh"},
        {"global_attn_every_n_layers": 3, "local_attention": 5},
        {"global_attn_every_n_layers": 1},
        {"layer_types": ["full_attention"] + 3 * ["sliding_attention"]},
    ],
    ids=["published", "biases", "no decoder bias", "activations", "every third", "all global", "one global"],
)
def test_logits_equal_those_of_transformers_on_a_folder_of_theirs(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    source = write_modernbert(tmp_path / "source", **changes)
    theirs = transformers.ModernBertForMaskedLM.from_pretrained(source).eval()
    ours, _ = load_pretraining_model(source)
    ids, mask, _ = padded_batch()
    packed, real = packed_batch(), mask.bool()
    with torch.inference_mode():
        expected = theirs(input_ids=ids, attention_mask=mask).logits[real]
        got = ours(ids, mask).masked_language_MV[real]
        from_packed = ours.forward_packed(
            *packed.arguments, torch.arange(len(packed.input_ids_T))
        ).masked_language_MV
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(from_packed, expected, rtol=1e-5, atol=1e-5)
    assert_same_folder(source, save_model(tmp_path / "again", ours))


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_a_model_of_ours_has_equal_logits_in_transformers(changes: dict[str, Any], tmp_path: Path) -> None:
    model = tiny_modern(**changes).eval()
    folder = save_model(tmp_path / "model", model)
    theirs, report = transformers.ModernBertForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids, mask, _ = padded_batch()
    with torch.inference_mode():
        expected = theirs.eval()(input_ids=ids, attention_mask=mask).logits[mask.bool()]
        got = model(ids, mask).masked_language_MV[mask.bool()]
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    again, config = load_pretraining_model(folder)
    assert config == model.config
    assert_same_folder(folder, save_model(tmp_path / "again", again))


def test_masked_language_logits_on_real_sentences_equal_those_of_transformers(
    minilm: Path, tmp_path: Path
) -> None:
    # With a tokenizer of BERT's kind, which makes segments that ModernBERT's class would not take, and with padding.
    torch.manual_seed(0)
    config = dataclasses.replace(TINY_MODERN, vocabulary_size=30_522, initializer_range=0.05)
    model = tiny_modern(**{f.name: getattr(config, f.name) for f in dataclasses.fields(config)}).eval()
    folder = save_model(tmp_path / "model", model, tokenizer_from=minilm)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    assert type(theirs).__name__ == "ModernBertForMaskedLM"
    assert (theirs.config.cls_token_id, theirs.config.sep_token_id) == (101, 102)
    assert theirs.config.pad_token_id == tokenizer.pad_token_id == 0
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    assert set(batch) == {"input_ids", "attention_mask"}
    with torch.inference_mode():
        expected = theirs(**batch).logits
        got = model(batch["input_ids"], batch["attention_mask"]).masked_language_MV
    real = batch["attention_mask"].bool()
    assert not real.all() and expected[real].std() > 0.1
    torch.testing.assert_close(got[real], expected[real], rtol=0, atol=1e-5)


def test_tokenizer_files_that_make_no_segments_are_copied_byte_for_byte(minilm: Path, tmp_path: Path) -> None:
    model = tiny_modern(vocabulary_size=30_522)
    first = save_model(tmp_path / "first", model, tokenizer_from=minilm)
    second = save_model(tmp_path / "second", load_pretraining_model(first)[0], tokenizer_from=first)
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json", "model.safetensors"):
        assert (second / name).read_bytes() == (first / name).read_bytes(), name


def test_the_manifest_and_the_card_name_the_family(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model", tiny_modern())
    counts = load_manifest(folder).counts
    assert counts["parameters"] == sum(p.numel() for p in tiny_modern().parameters())
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "A ModernBERT encoder" in card and "AutoModelForMaskedLM" in card and "\n- modernbert\n" in card


def test_a_missing_head_is_named_and_made_not_invented_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_modernbert(tmp_path / "source", "ModernBertModel")
    model, _ = load_pretraining_model(source)
    assert model.encoder.origin is not None
    assert model.encoder.origin.initialised == ("masked_language_head",)
    assert "has no masked_language_head" in capsys.readouterr().err
    with pytest.raises(UsageError, match="modernbert model, which has no next-sentence head"):
        load_pretraining_model(source, next_sentence=True)


def test_the_head_of_a_tuned_model_is_not_taken_for_the_masked_language_head(tmp_path: Path) -> None:
    # ModernBertForTokenClassification has a `head` of the same shape as that of ModernBertForMaskedLM.
    source = write_modernbert(tmp_path / "source", "ModernBertForTokenClassification")
    found, _ = load_encoder(source)
    assert isinstance(found, ModernEncoder) and found.origin is not None
    assert {name.partition(".")[0] for name in found.origin.unused} == {"head", "classifier"}
    model, _ = load_pretraining_model(source)
    assert model.encoder.origin is not None
    assert model.encoder.origin.initialised == ("masked_language_head",)
    again = save_model(tmp_path / "again", found)
    assert json.loads((again / "config.json").read_text(encoding="utf-8"))["architectures"] == [
        "ModernBertModel"
    ]
    ids, mask, _ = padded_batch()
    theirs = transformers.AutoModel.from_pretrained(again).eval()
    with torch.inference_mode():
        expected = theirs(input_ids=ids, attention_mask=mask).last_hidden_state[mask.bool()]
        torch.testing.assert_close(found(ids, mask)[mask.bool()], expected, rtol=1e-5, atol=1e-5)


def test_a_published_local_base_of_null_is_the_global_one(tmp_path: Path) -> None:
    source = as_published(write_modernbert(tmp_path / "source"), local_rope_theta=None)
    model, config = load_encoder(source)
    assert config.local_theta == config.global_theta == 500.0
    again = save_model(tmp_path / "again", model)
    assert json.loads((again / "config.json").read_text(encoding="utf-8"))["local_rope_theta"] is None


@pytest.mark.parametrize("published", [False, True])
def test_a_changed_value_is_written_in_the_form_that_the_file_has(published: bool, tmp_path: Path) -> None:
    source = write_modernbert(tmp_path / "source")
    if published:
        as_published(source)
    model, config = load_pretraining_model(source)
    model.config = dataclasses.replace(config, global_every=4, local_theta=9.0, dropout=0.1)
    again = save_model(tmp_path / "again", model)
    _, found = load_encoder(again)
    assert found == model.config
    theirs = transformers.AutoConfig.from_pretrained(again)
    assert theirs.layer_types == ["full_attention"] + 3 * ["sliding_attention"]
    assert theirs.rope_parameters["sliding_attention"]["rope_theta"] == 9.0
    assert theirs.rope_parameters["full_attention"]["rope_theta"] == 500.0
    assert theirs.mlp_dropout == 0.1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tie_word_embeddings": False}, "not tied"),
        ({"hidden_activation": "silu"}, "hidden_activation is not supported.*'silu'.*gelu"),
        ({"layer_types": ["sliding_attention"] * 4}, "layer_types is not full_attention in every n-th layer"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_type.*'yarn'.*default"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "rope_scaling is not supported"),
        ({"num_attention_heads": 5}, "48 cannot be shared out among 5"),
        ({"vocab_size": 128}, r"\(97, 48\), config.json asks for \(128, 48\)"),
        ({"norm_bias": True}, "lacks the tensor 'embeddings.norm.bias'"),
    ],
    ids=lambda c: next(iter(c)) if isinstance(c, dict) else "",
)
def test_what_this_encoder_does_not_compute_is_refused_by_name(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    source = write_modernbert(tmp_path / "source")
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    (source / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")
    with pytest.raises(BadInput, match=words):
        load_encoder(source)


def test_a_pickle_is_converted_to_safetensors(tmp_path: Path) -> None:
    source = write_modernbert(tmp_path / "source")
    tensors = load_file(source / "model.safetensors")
    doubled = {**tensors, "decoder.weight": tensors["model.embeddings.tok_embeddings.weight"]}
    torch.save(doubled, source / "pytorch_model.bin")
    (source / "model.safetensors").rename(tmp_path / "kept.safetensors")
    out = convert(source, tmp_path / "out")
    again = load_file(out / "model.safetensors")
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensor) for name, tensor in tensors.items())


def test_it_embeds_texts(minilm: Path, tmp_path: Path) -> None:
    # The mean of the last hidden states over the real tokens, as transformers computes them.
    folder = save_model(tmp_path / "model", tiny_modern(vocabulary_size=30_522).eval(), tokenizer_from=minilm)
    vectors = encoder(folder, device="cpu").embed(SENTENCES)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(SENTENCES, padding=True, truncation=True, max_length=40, return_tensors="pt")
    with torch.inference_mode():
        hidden = transformers.AutoModel.from_pretrained(folder).eval()(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    expected = (hidden * mask).sum(1) / mask.sum(1)
    torch.testing.assert_close(torch.from_numpy(vectors), expected, rtol=1e-5, atol=1e-5)
