"""`biosmith convert`: pickles made safe, and clear words about what cannot be converted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from biosmith.artefact import load_manifest
from biosmith.cli import main
from biosmith.errors import BadInput, UsageError
from biosmith.lineage import SOUND, trace_origin
from biosmith.models import load_encoder, load_pretraining_model, save_model
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


def test_a_decoder_of_its_own_is_refused_rather_than_left_out(pickled: Path, tmp_path: Path) -> None:
    """The second copy of a tied tensor goes, but not one that differs: the logits would be others."""
    tensors = torch.load(pickled / "pytorch_model.bin", weights_only=True)
    tensors["cls.predictions.decoder.weight"] = torch.randn(97, 48)
    torch.save(tensors, pickled / "pytorch_model.bin")
    with pytest.raises(BadInput, match="only tied decoders are supported"):
        convert(pickled, tmp_path / "out")


def test_a_tied_tensor_may_have_its_second_name_only(pickled: Path, tmp_path: Path) -> None:
    """Which of the two names a file has is up to whoever wrote it; transformers takes either."""
    tensors = torch.load(pickled / "pytorch_model.bin", weights_only=True)
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    torch.save(tensors, pickled / "pytorch_model.bin")
    out = convert(pickled, tmp_path / "out")
    ours, _ = load_pretraining_model(out)
    assert not ours.encoder.origin.initialised  # type: ignore[union-attr]
    assert torch.equal(ours.masked_language_head.bias, tensors["cls.predictions.decoder.bias"])
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(out)
    assert torch.equal(theirs.cls.predictions.decoder.bias, tensors["cls.predictions.decoder.bias"])
    whole = sum(parameter.numel() for parameter in ours.parameters())
    assert load_manifest(out).counts["parameters"] == whole


def test_tensors_that_share_their_memory_are_written_apart(pickled: Path, tmp_path: Path) -> None:
    """safetensors takes none that do, which a tied layer of a name of somebody's own does."""
    tensors = torch.load(pickled / "pytorch_model.bin", weights_only=True)
    tensors["lm_head.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
    torch.save(tensors, pickled / "pytorch_model.bin")
    out = load_file(convert(pickled, tmp_path / "out") / "model.safetensors")
    assert torch.equal(out["lm_head.weight"], tensors["lm_head.weight"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([torch.zeros(2)], "holds one list"),
        ({"state_dict": {"x": torch.zeros(2)}}, "holds a dict called 'state_dict'"),
        ({"epoch": 3}, "holds a int called 'epoch'"),
        ({1: torch.zeros(2)}, "holds a Tensor called 1"),
        (b"version https://git-lfs.github.com/spec/v1\nsize 3\n", "is a pointer of Git LFS"),
        (b"<!DOCTYPE html><html>", "is damaged or no checkpoint"),
        (b"", "is damaged or no checkpoint"),
    ],
)
def test_a_pickle_of_something_else_is_refused_with_what_it_is(
    content: object, words: str, pickled: Path, tmp_path: Path
) -> None:
    weights = pickled / "pytorch_model.bin"
    if isinstance(content, bytes):
        weights.write_bytes(content)
    else:
        torch.save(content, weights)
    with pytest.raises(BadInput, match=rf"pytorch_model\.bin: {words}"):
        convert(pickled, tmp_path / "out")


@pytest.mark.parametrize(
    "index", ["{", "[]", "{}", '{"weight_map": {"a": 1}}', '{"weight_map": {"a": "x.bin"}}']
)
def test_a_broken_index_of_pickles_is_refused_by_name(index: str, pickled: Path, tmp_path: Path) -> None:
    (pickled / "pytorch_model.bin.index.json").write_text(index, encoding="utf-8")
    with pytest.raises(BadInput, match=r"pytorch_model\.bin\.index\.json: (is not an index|names shards)"):
        convert(pickled, tmp_path / "out")


def test_a_number_that_a_smaller_type_cannot_hold_is_refused(tmp_path: Path) -> None:
    """float16 ends at 65,504: infinity in its place would make every logit no number."""
    source = write_transformers_folder(tmp_path / "source", "BertForMaskedLM")
    tensors = load_file(source / "model.safetensors")
    tensors["bert.encoder.layer.0.output.dense.weight"][0, 0] = 1e5
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadInput, match=r"layer\.0\.output.*too large for float16 \(found 100000"):
        convert(source, tmp_path / "out", "float16")
    converted, _ = load_encoder(convert(source, tmp_path / "out", "bfloat16"))
    assert torch.isfinite(converted(torch.tensor([[1, 2, 3]]))).all()


def test_the_way_back_goes_through_whatever_was_converted(tmp_path: Path) -> None:
    """A folder of ours is an input as the artefact that it is, and of shards every one is an input."""
    made = save_model(tmp_path / "made", tiny_model())
    again = convert(made, tmp_path / "again", "float16")
    assert [(o.kind, o.state) for o in trace_origin(again).walk()] == [("model", SOUND)] * 2
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(made)
    theirs.save_pretrained(tmp_path / "sharded", max_shard_size="50KB")
    shards = sorted((tmp_path / "sharded").glob("*.safetensors"))
    assert len(shards) > 1
    inputs = load_manifest(convert(tmp_path / "sharded", tmp_path / "whole")).inputs
    assert [item["path"] for item in inputs] == [str(shard) for shard in shards]


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


@pytest.mark.parametrize(("source", "rows"), [("pickled", 97), ("other", 30)])
def test_a_tokenizer_with_more_pieces_than_rows_is_refused_with_both_numbers(
    source: str, rows: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The model would be asked for rows that it does not have, by whoever runs it."""
    folder: Path = request.getfixturevalue(source)
    (folder / "vocab.txt").write_text("".join(f"p{n}\n" for n in range(rows + 1)), encoding="utf-8")
    with pytest.raises(
        UsageError, match=rf"{folder.name} has {rows + 1} pieces, but its embedding of words has {rows} rows"
    ):
        convert(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (folder / "vocab.txt").write_text("".join(f"p{n}\n" for n in range(rows)), encoding="utf-8")
    assert (convert(folder, tmp_path / "out") / "vocab.txt").is_file()


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
    with pytest.raises(OSError, match="No space left on device") as caught:
        save_model(tmp_path / "model", tiny_model())
    assert caught.value.filename == str(tmp_path / "model" / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_folder_of_ours_that_is_more_than_a_model_is_not_halved(tmp_path: Path) -> None:
    made = save_model(tmp_path / "made", tiny_model())
    (made / "head.safetensors").write_bytes(b"a chain")
    with pytest.raises(UsageError, match=r"tuned model with a head of its own.*biosmith release"):
        convert(made, tmp_path / "out")
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / "config.json").write_text('{"model_type": "biosmith_vae"}', encoding="utf-8")
    with pytest.raises(UsageError, match=r"is a latent-variable model.*biosmith release"):
        convert(tmp_path / "vae", tmp_path / "out")
