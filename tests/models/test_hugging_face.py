"""Hugging Face in, Hugging Face out: equal bits, equal logits, clear refusals."""

from __future__ import annotations

import json
import resource
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from biosmith.artefact import Manifest, folder_by_rename, load_manifest
from biosmith.errors import BadInput, UsageError
from biosmith.models import load_encoder, load_pretraining_model, save_model
from biosmith.models.encoder import Encoder
from models.checks import TINY, packed_batch, padded_batch, tiny_model, write_transformers_folder

SENTENCES = [
    "EGFR-mutant lung adenocarcinoma acquired resistance to osimertinib through MET amplification.",
    "Interleukin-6 (IL-6) and TNF-α were raised in the serum of 24 ♀ and 31 ♂ patients.",
    "Aspirin [MASK] platelet aggregation.",
    "No.",
]


def assert_same_folder(first: Path, second: Path) -> None:
    """Equal tensors under equal names, bit for bit, and equal configurations."""
    ours, theirs = load_file(second / "model.safetensors"), load_file(first / "model.safetensors")
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype, name
        assert torch.equal(ours[name].view(torch.uint8), tensor.view(torch.uint8)), name
    config = [json.loads((folder / "config.json").read_text(encoding="utf-8")) for folder in (first, second)]
    assert config[0] == config[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["BertForPreTraining", "BertForMaskedLM", "BertModel"])
def test_a_folder_read_and_written_again_is_equal_bit_for_bit(
    kind: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    source = write_transformers_folder(tmp_path / "source", kind, dtype=dtype)
    load = load_encoder if kind == "BertModel" else load_pretraining_model
    model, _ = load(source)
    assert_same_folder(source, save_model(tmp_path / "again", model))


def test_a_real_folder_read_and_written_again_is_equal_bit_for_bit(minilm: Path, tmp_path: Path) -> None:
    # It has unknown configuration keys, an old index buffer among its tensors, and no prefix.
    model, _ = load_encoder(minilm)
    again = save_model(tmp_path / "again", model, tokenizer_from=minilm)
    assert_same_folder(minilm, again)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        assert (again / name).read_bytes() == (minilm / name).read_bytes()


def test_unknown_configuration_keys_and_old_tensor_names_survive(tmp_path: Path) -> None:
    # Old conversions call LayerNorm's parameters gamma and beta, and write tied tensors twice.
    source = write_transformers_folder(tmp_path / "source", "BertForPreTraining")
    tensors = load_file(source / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    old["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
    old["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
    old["bert.embeddings.position_ids"] = torch.arange(40)[None]
    save_file(old, source / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {"directionality": "bidi", "pooler_fc_size": 768, "architectures": ["BertForMaskedLM"]}
    for key in ("pad_token_id", "hidden_act", "layer_norm_eps", "dtype"):  # defaults, left out by old files
        del config[key]
    (source / "config.json").write_text(json.dumps(config), encoding="utf-8")
    model, _ = load_pretraining_model(source)
    assert_same_folder(source, save_model(tmp_path / "again", model))


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_logits_equal_those_of_transformers_on_a_folder_of_theirs(activation: str, tmp_path: Path) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertForPreTraining", hidden_act=activation)
    theirs = transformers.BertForPreTraining.from_pretrained(source).eval()
    ours, config = load_pretraining_model(source)
    assert config.activation == activation
    ids, mask, types = padded_batch()
    with torch.inference_mode():
        expected = theirs(input_ids=ids, attention_mask=mask, token_type_ids=types)
        got = ours(ids, mask, types)
        packed = packed_batch()
        from_packed = ours.forward_packed(*packed.arguments, torch.arange(len(packed.input_ids_T)))
    real = mask.bool()
    torch.testing.assert_close(
        got.masked_language_MV[real], expected.prediction_logits[real], rtol=0, atol=1e-5
    )
    torch.testing.assert_close(
        from_packed.masked_language_MV, expected.prediction_logits[real], rtol=0, atol=1e-5
    )
    torch.testing.assert_close(got.next_sentence_N2, expected.seq_relationship_logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_a_model_of_ours_has_equal_logits_in_transformers(activation: str, tmp_path: Path) -> None:
    model = tiny_model(activation=activation).eval()
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(save_model(tmp_path / "model", model)).eval()
    ids, mask, types = padded_batch()
    with torch.inference_mode():
        expected = theirs(input_ids=ids, attention_mask=mask, token_type_ids=types).logits
        got = model(ids, mask, types).masked_language_MV
    torch.testing.assert_close(got[mask.bool()], expected[mask.bool()], rtol=0, atol=1e-5)


def test_masked_language_logits_on_real_sentences_equal_those_of_transformers(
    minilm: Path, tmp_path: Path
) -> None:
    # MiniLM has no such head: one is initialised, its output layer with it, and both sides must agree on it.
    torch.manual_seed(0)
    model, _ = load_pretraining_model(minilm)
    folder = save_model(tmp_path / "model", model, tokenizer_from=minilm)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.inference_mode():
        expected = theirs(**batch).logits
        got = model(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]).masked_language_MV
    real = batch["attention_mask"].bool()
    torch.testing.assert_close(got[real], expected[real], rtol=0, atol=1e-5)


def test_missing_heads_are_named_and_made_not_invented_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertModel")
    model, _ = load_pretraining_model(source, next_sentence=True)
    assert model.encoder.origin is not None
    assert model.encoder.origin.initialised == ("masked_language_head", "next_sentence_head")
    assert "has no masked_language_head, next_sentence_head" in capsys.readouterr().err
    assert not model.masked_language_head.bias.any()
    tensors = load_file(source / "model.safetensors")
    assert torch.equal(model.encoder.pooler.dense.weight, tensors["pooler.dense.weight"])
    assert model(torch.ones(1, 3, dtype=torch.long)).next_sentence_N2.shape == (1, 2)


def test_heads_of_another_kind_are_left_out_and_named(tmp_path: Path) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertForTokenClassification")
    model, _ = load_encoder(source)
    assert model.origin is not None
    assert set(model.origin.unused) == {"classifier.weight", "classifier.bias"}
    again = save_model(tmp_path / "again", model)
    assert json.loads((again / "config.json").read_text(encoding="utf-8"))["architectures"] == ["BertModel"]
    assert not any("classifier" in name for name in load_file(again / "model.safetensors"))


def test_a_tuned_model_is_saved_with_its_head_and_label_map(tmp_path: Path) -> None:
    encoder, _ = load_encoder(write_transformers_folder(tmp_path / "source", "BertModel"))
    weight, bias = torch.randn(3, 48), torch.randn(3)
    labels = {0: "O", 1: "B-Disease", 2: "I-Disease"}
    folder = save_model(
        tmp_path / "tuned",
        encoder,
        architecture="BertForTokenClassification",
        head={"classifier.weight": weight, "classifier.bias": bias},
        config={"id2label": labels, "label2id": {label: i for i, label in labels.items()}},
    )
    theirs, report = transformers.AutoModelForTokenClassification.from_pretrained(
        folder, output_loading_info=True
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.config.id2label == labels
    ids, mask, types = padded_batch()
    with torch.inference_mode():
        expected = theirs.eval()(input_ids=ids, attention_mask=mask, token_type_ids=types).logits
        got = encoder(ids, mask, types) @ weight.T + bias
    torch.testing.assert_close(got[mask.bool()], expected[mask.bool()], rtol=0, atol=1e-5)


def test_sharded_weights_are_read(tmp_path: Path) -> None:
    model = transformers.BertForPreTraining.from_pretrained(
        write_transformers_folder(tmp_path / "one", "BertForPreTraining")
    )
    model.save_pretrained(tmp_path / "shards", max_shard_size="50KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    whole, _ = load_pretraining_model(tmp_path / "one")
    sharded, _ = load_pretraining_model(tmp_path / "shards")
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), sharded.parameters(), strict=True))
    next((tmp_path / "shards").glob("*00002*.safetensors")).unlink()
    with pytest.raises(BadInput, match=r"shards that are not there: model-00002"):
        load_encoder(tmp_path / "shards")


def test_dtype_is_kept_or_changed_on_request(tmp_path: Path) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertModel", dtype=torch.bfloat16)
    kept, _ = load_encoder(source)
    raised, _ = load_encoder(source, dtype=torch.float32)
    assert {p.dtype for p in kept.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in raised.parameters()} == {torch.float32}
    again = save_model(tmp_path / "again", raised)
    assert json.loads((again / "config.json").read_text(encoding="utf-8"))["dtype"] == "float32"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"model_type": "roberta", "architectures": ["RobertaModel"]},
            r"roberta model \(RobertaModel\), not a bert",
        ),
        ({"model_type": "deberta-v2", "architectures": ["DebertaV2Model"]}, "bert or modernbert or .* model"),
        ({"hidden_size": 64}, "no model"),
        ({"model_type": "bert", "hidden_act": "relu"}, "'relu'.*valid: gelu, gelu_new"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "relative_key.*valid: absolute"),
        (
            {"model_type": "bert", "hidden_size": 50, "num_attention_heads": 12},
            "50 cannot be shared out among 12",
        ),
        ({"model_type": "bert", "hidden_size": "wide"}, "not a usable BERT configuration"),
    ],
    ids=["roberta", "deberta", "nameless", "activation", "positions", "heads", "type"],
)
def test_another_architecture_is_refused_by_name(
    config: dict[str, object], words: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(BadInput, match=words if words != "no model" else "nameless model"):
        load_encoder(tmp_path)


def test_weights_that_do_not_fit_the_configuration_are_refused_with_both_shapes(tmp_path: Path) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertModel")
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    (source / "config.json").write_text(json.dumps(config | {"vocab_size": 128}), encoding="utf-8")
    with pytest.raises(
        BadInput, match=r"words.weight has shape \(97, 48\), config.json asks for \(128, 48\)"
    ):
        load_encoder(source)
    (source / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}), encoding="utf-8")
    with pytest.raises(BadInput, match=r"lacks the tensor 'encoder.layer.3"):
        load_encoder(source)


def test_layers_beyond_the_configuration_are_not_left_out_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertModel")
    load_encoder(source)
    assert "more layers" not in capsys.readouterr().err
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    fewer = {**config, "num_hidden_layers": config["num_hidden_layers"] - 1}
    (source / "config.json").write_text(json.dumps(fewer), encoding="utf-8")
    load_encoder(source)
    shown = "".join(capsys.readouterr().err.split())  # lines are broken at the width of the terminal
    assert "morelayersthanitsconfig.json" in shown and f"layer.{fewer['num_hidden_layers']}." in shown


def test_damaged_and_missing_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load_encoder(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"has no config\.json"):
        load_encoder(tmp_path)
    source = write_transformers_folder(tmp_path / "source", "BertModel")
    weights = source / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(BadInput, match=r"model\.safetensors: is damaged"):
        load_encoder(source)
    (source / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(BadInput, match=r"config\.json: is not JSON"):
        load_encoder(source)


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertModel")
    torch.save(load_file(source / "model.safetensors"), source / "pytorch_model.bin")
    (source / "model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"only a pickle.*biosmith convert"):
        load_encoder(source)


def test_a_network_in_the_form_of_an_engine_is_not_taken_for_a_pickle(tmp_path: Path) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertModel")
    (source / "model.safetensors").unlink()
    for name in ("openvino.bin", "careful.bin"):
        (source / name).write_bytes(b"")
    (source / "openvino.xml").write_text("<net/>", encoding="utf-8")
    with pytest.raises(UsageError, match="source was made for openvino and has no weights to train; take"):
        load_encoder(source)


def test_a_vocabulary_of_another_size_is_refused_with_both_sizes(minilm: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="30,522 pieces, but the model was made for 97"):
        save_model(tmp_path / "model", tiny_model(), tokenizer_from=minilm)
    assert not (tmp_path / "model").exists()


def test_an_output_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="exists already"):
        save_model(tmp_path / "model", tiny_model())
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["notes.txt"]


def test_an_export_says_what_it_is_and_what_it_was_made_from(minilm: Path, tmp_path: Path) -> None:
    model, _ = load_encoder(minilm)
    folder = save_model(tmp_path / "model", model, tokenizer_from=minilm)
    manifest = load_manifest(folder, kind="model")
    assert manifest.counts == {"parameters": 22_713_216, "vocabulary": 30_522}
    assert {Path(item["path"]).name for item in manifest.inputs} == {"model.safetensors", "tokenizer.json"}
    assert set(manifest.files) == {p.name for p in folder.iterdir()} - {"manifest.json"}
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlanguage: en\n") and "22,713,216" in card


def test_a_fresh_model_writes_every_field_of_its_configuration(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model", Encoder(TINY))
    read = transformers.AutoConfig.from_pretrained(folder)
    assert (read.vocab_size, read.hidden_size, read.num_hidden_layers) == (97, 48, 3)
    assert (read.num_attention_heads, read.intermediate_size, read.max_position_embeddings) == (4, 80, 40)
    assert (read.layer_norm_eps, read.initializer_range, read.hidden_act) == (1e-12, 0.2, "gelu")
    assert load_encoder(folder)[1] == TINY


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", 48.0),
        ("num_hidden_layers", float("nan")),
        ("num_attention_heads", True),
        ("vocab_size", "97"),
        ("layer_norm_eps", "1e-12"),
        ("layer_norm_eps", float("nan")),
        ("layer_norm_eps", -1e-12),
        ("initializer_range", []),
        ("initializer_range", -0.02),
        ("pad_token_id", "x"),
        ("hidden_act", ["gelu"]),
        ("model_type", ["bert"]),
    ],
)
def test_a_value_of_the_wrong_kind_in_a_configuration_is_named(
    key: str, value: object, tmp_path: Path
) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertModel")
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    (source / "config.json").write_text(json.dumps({**config, key: value}), encoding="utf-8")
    with pytest.raises(BadInput, match=r"config\.json"):
        load_encoder(source)


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("attention.self.key.weight", torch.zeros(48, 40), r"\(48, 40\).*have to be equal"),
        ("attention.self.key.weight", torch.zeros(5), r"\(5,\).*have to be equal"),
        ("output.dense.weight", torch.zeros(48, 80, dtype=torch.int8), r"quantised.*int8"),
        ("output.dense.weight", torch.zeros(48, 80).to(torch.float8_e4m3fn), r"quantised.*float8_e4m3fn"),
    ],
)
def test_a_tensor_that_the_encoder_cannot_use_is_refused_with_its_folder(
    name: str, tensor: torch.Tensor, words: str, tmp_path: Path
) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertModel")
    tensors = load_file(source / "model.safetensors") | {f"encoder.layer.1.{name}": tensor}
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadInput, match=f"source: .*{words}"):
        load_encoder(source)


def test_an_index_of_shards_that_names_no_files_is_refused(tmp_path: Path) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertModel")
    (source / "model.safetensors").unlink()
    (source / "model.safetensors.index.json").write_text('{"weight_map": {"a": 1}}', encoding="utf-8")
    with pytest.raises(BadInput, match=r"index\.json: is not an index of shards"):
        load_encoder(source)


def test_a_pointer_in_the_place_of_the_weights_is_told_from_damage(tmp_path: Path) -> None:
    """What a clone without Git LFS leaves, which is common with models of the hub."""
    source = write_transformers_folder(tmp_path / "source", "BertModel")
    (source / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", encoding="utf-8"
    )
    with pytest.raises(BadInput, match=r"model\.safetensors: is a pointer of Git LFS.*git lfs pull"):
        load_encoder(source)


@pytest.mark.parametrize(
    "part", ["model.safetensors", "config.json", "README.md", "vocab.txt", "manifest.json"]
)
def test_what_does_not_fit_on_the_disk_is_named_and_nothing_is_left(part: str, tmp_path: Path) -> None:
    # As on a full disk, no file may grow beyond a limit; `part` is the only one that would.
    limit, much = 2_000_000, "x" * 3_000_000
    vocabulary = tmp_path / "vocabulary"
    vocabulary.mkdir()
    words = [f"w{i}" + "x" * 30_000 * (part == "vocab.txt") for i in range(TINY.vocabulary_size)]
    (vocabulary / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (vocabulary / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "BertTokenizer"}', encoding="utf-8"
    )
    head = {"classifier.weight": torch.zeros(1_000_000)} if part == "model.safetensors" else None
    save = partial(
        save_model,
        model=tiny_model(),
        tokenizer_from=vocabulary,
        head=head,
        config={"note": much} if part == "config.json" else None,
        manifest=Manifest("model", config={"note": much if part == "manifest.json" else ""}),
        card=much if part == "README.md" else "a card",
    )
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            save(tmp_path / "model")
        with (
            pytest.raises(OSError, match="File too large") as nested,
            folder_by_rename(tmp_path / "two") as two,
        ):
            save(two)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(tmp_path / "model" / part)
    assert nested.value.filename == str(tmp_path / "two" / part)
    assert list(tmp_path.iterdir()) == [vocabulary]
    save(tmp_path / "model")


def test_others_may_read_the_weights_as_they_may_the_other_files(tmp_path: Path) -> None:
    # safetensors writes for the owner alone: a service of another user could not load the model.
    folder = save_model(tmp_path / "model", tiny_model())
    assert {path.stat().st_mode for path in folder.iterdir()} == {(folder / "config.json").stat().st_mode}


def test_a_model_in_the_working_directory_is_called_as_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    save_model(".", tiny_model())
    assert "\n# mine\n" in Path("README.md").read_text(encoding="utf-8")
