"""`biosmith convert`: pickles made safe, and clear words about what cannot be converted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file

from biosmith.cli import main
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.models import save_model
from biosmith.models.converting import convert
from models.checks import padded_batch, tiny_model, write_transformers_folder


class _Attack:
    """What a hostile pickle does when it is opened without care."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.victim,)


@pytest.fixture
def pickled(tmp_path: Path) -> Path:
    """A folder as old ones are: a pickle, gamma and beta, an index buffer, a second copy of the tied decoder."""
    folder = write_transformers_folder(tmp_path / "pickled", "BertForPreTraining")
    tensors = load_file(folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"]
    old["bert.embeddings.position_ids"] = torch.arange(40)[None]
    torch.save(old, folder / "pytorch_model.bin")
    (folder / "model.safetensors").rename(tmp_path / "expected.safetensors")
    return folder


def test_a_pickle_becomes_the_safetensors_that_it_was(pickled: Path, tmp_path: Path) -> None:
    out = convert(pickled, tmp_path / "out")
    expected, got = load_file(tmp_path / "expected.safetensors"), load_file(out / "model.safetensors")
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], expected[name]) for name in expected)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(out).eval()
    ids, mask, types = padded_batch()
    assert torch.isfinite(theirs(input_ids=ids, attention_mask=mask, token_type_ids=types).logits).all()


def test_a_safe_folder_passes_through_bit_for_bit(minilm: Path, tmp_path: Path) -> None:
    out = convert(minilm, tmp_path / "out")
    expected, got = load_file(minilm / "model.safetensors"), load_file(out / "model.safetensors")
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], expected[name]) for name in expected)
    configs = [json.loads((folder / "config.json").read_text(encoding="utf-8")) for folder in (minilm, out)]
    assert configs[0] == configs[1]


def test_a_pickle_in_shards_is_read_whole(pickled: Path, tmp_path: Path) -> None:
    tensors = torch.load(pickled / "pytorch_model.bin", weights_only=True)
    (pickled / "pytorch_model.bin").unlink()
    names = list(tensors)
    shards = {"pytorch_model-1.bin": names[::2], "pytorch_model-2.bin": names[1::2]}
    for shard, held in shards.items():
        torch.save({name: tensors[name] for name in held}, pickled / shard)
    index = {"weight_map": {name: shard for shard, held in shards.items() for name in held}}
    (pickled / "pytorch_model.bin.index.json").write_text(json.dumps(index), encoding="utf-8")
    got = load_file(convert(pickled, tmp_path / "out") / "model.safetensors")
    assert got.keys() == load_file(tmp_path / "expected.safetensors").keys()


def test_a_hostile_pickle_runs_nothing(pickled: Path, tmp_path: Path) -> None:
    victim = tmp_path / "touched"
    torch.save({"x": _Attack(victim)}, pickled / "pytorch_model.bin")
    with pytest.raises(BadInput, match=r"pytorch_model\.bin: holds something else than tensors"):
        convert(pickled, tmp_path / "out")
    assert not victim.exists() and not (tmp_path / "out").exists()


def test_a_damaged_pickle_is_refused_by_name(pickled: Path, tmp_path: Path) -> None:
    weights = pickled / "pytorch_model.bin"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(BadInput, match=r"pytorch_model\.bin: is damaged"):
        convert(pickled, tmp_path / "out")


def test_weights_are_cast_on_request(tmp_path: Path) -> None:
    source = write_transformers_folder(tmp_path / "source", "BertForTokenClassification", num_labels=5)
    out = convert(source, tmp_path / "out", "bfloat16")
    tensors = load_file(out / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    assert tensors["classifier.weight"].shape == (5, 48), "heads of every kind are kept"
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert (config["dtype"], len(config["id2label"])) == ("bfloat16", 5)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A pickle of a family that only transformers knows, with a label map."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.RobertaConfig(
        vocab_size=30, max_position_embeddings=20, id2label={0: "O", 1: "B-Gene", 2: "I-Gene"}, **sizes
    )
    torch.manual_seed(0)
    model = transformers.RobertaForTokenClassification(config)
    folder = tmp_path / "roberta"
    model.save_pretrained(folder)
    (folder / "model.safetensors").rename(tmp_path / "expected.safetensors")
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


def test_a_pickle_of_a_family_that_only_transformers_knows_becomes_safetensors(
    other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(other), "--out", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["architecture"] == "RobertaForTokenClassification"
    expected, got = (
        load_file(tmp_path / "expected.safetensors"),
        load_file(tmp_path / "out/model.safetensors"),
    )
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], expected[name]) for name in expected)
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "out")
    assert theirs.config.id2label == {0: "O", 1: "B-Gene", 2: "I-Gene"}
    cast = load_file(convert(other, tmp_path / "half", "bfloat16") / "model.safetensors")
    assert {tensor.dtype for tensor in cast.values()} == {torch.bfloat16}


def test_a_pickle_of_another_family_is_opened_with_the_same_care(other: Path, tmp_path: Path) -> None:
    weights = other / "pytorch_model.bin"
    tensors = torch.load(weights, weights_only=True)
    torch.save({k: v for k, v in tensors.items() if k != "classifier.weight"}, weights)
    with pytest.raises(BadInput, match=r"lacks tensors .*classifier\.weight"):
        convert(other, tmp_path / "out")
    victim = tmp_path / "touched"
    torch.save({"x": _Attack(victim)}, weights)
    with pytest.raises(BadInput, match="holds something else than tensors"):
        convert(other, tmp_path / "out")
    assert not victim.exists() and not (tmp_path / "out").exists()


def test_whoever_meets_a_pickle_is_told_to_convert_it(other: Path) -> None:
    from biosmith.tasks.network import load_tagger

    with pytest.raises(UsageError, match=r"only a pickle.*biosmith convert"):
        load_tagger(other)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (
            "latest_checkpointed_iteration.txt",
            "holds no model_optim_rng.pt, nor folders mp_rank_00",
        ),
        ("bert_model.ckpt.index", "is a TensorFlow checkpoint"),
        ("model.nemo", "is a NeMo checkpoint"),
        ("flax_model.msgpack", "is a Flax checkpoint"),
    ],
)
def test_what_cannot_be_converted_is_named(file: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / file).touch()
    with pytest.raises(UsageError, match=words):
        convert(tmp_path / "source", tmp_path / "out")


def test_the_command_converts_and_reports(
    pickled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(pickled), "--out", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["architecture"] == "BertForPreTraining"
    assert main(["convert", str(pickled), "--out", str(tmp_path / "out")]) == 2
    assert main(["convert", str(tmp_path / "nowhere"), "--out", str(tmp_path / "other")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_a_full_disk_leaves_no_folder_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("biosmith.models.saving.save_file", fail)
    with pytest.raises(BiosmithError, match=r"model/model\.safetensors cannot be written: .*No space left"):
        save_model(tmp_path / "model", tiny_model())
    assert not list(tmp_path.iterdir())
