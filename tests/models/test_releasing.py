"""Released folders: the same model, nothing of one's own machine, and a lineage that outlives its sources."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers

from biosmith.artefact import Manifest, describe_files, describe_input, load_manifest
from biosmith.cli import main
from biosmith.errors import UsageError
from biosmith.lineage import NAMED, RECORDED, SOUND, trace_origin
from biosmith.models import load_encoder, save_model
from biosmith.models.releasing import release
from models.checks import tiny_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model whose manifest names a corpus, of which it says where it lies."""
    home = tmp_path / "secret-project"
    corpus = home / "corpus"
    corpus.mkdir(parents=True)
    (corpus / "shard").write_text("text", encoding="utf-8")
    (home / "raw.xml").write_text("<raw/>", encoding="utf-8")
    inputs = [describe_input(home / "raw.xml")]
    command = f"biosmith corpus build {home}/raw.xml --out {corpus}"
    Manifest(
        "corpus", {"from": str(home)}, inputs=inputs, files=describe_files(corpus), command=command
    ).save(corpus)
    manifest = Manifest("model", {"data": f"read from {home}/raw.xml"}, inputs=[describe_input(corpus)])
    return save_model(home / "model", tiny_model(), manifest=manifest)


def test_nothing_of_this_machine_is_in_a_released_folder(model: Path, tmp_path: Path) -> None:
    out = release(model, tmp_path / "out").model
    assert load_manifest(out).config == {"data": "read from raw.xml"}
    for file in out.iterdir():
        assert b"secret-project" not in file.read_bytes(), file


def test_its_lineage_is_walked_when_nothing_of_it_is_left(model: Path, tmp_path: Path) -> None:
    """Before, every input is found; after, the released folder's own record stands for it."""
    out = release(model, tmp_path / "out").model
    shutil.rmtree(model.parent)
    origin = trace_origin(out)
    assert [(o.kind, o.state) for o in origin.walk()] == [
        ("model", SOUND),
        ("model", RECORDED),
        ("corpus", RECORDED),
        ("file", RECORDED),
    ]
    corpus = list(origin.walk())[2]
    assert corpus.command == "biosmith corpus build raw.xml --out corpus" and len(corpus.digest) == 64
    assert main(["trace", str(out), "--json"]) == 0


def test_what_is_no_model_is_refused_from_python_too(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a corpus artefact, not a model"):
        release(model.parent / "corpus", tmp_path / "out")


def test_what_the_model_itself_recorded_is_released_with_it(model: Path, tmp_path: Path) -> None:
    """A model that was made on another machine, and only itself brought away."""
    shutil.rmtree(model.parent / "corpus")
    done = release(model, tmp_path / "out")
    assert not done.missing
    assert [o.kind for o in trace_origin(done.model).walk()] == ["model", "model", "corpus", "file"]


def test_what_was_not_at_hand_is_named_by_its_digest_and_the_folder_is_sound(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = Manifest("model", inputs=[describe_input(model.parent / "corpus")])
    shutil.rmtree(model.parent / "corpus")
    later = save_model(model.parent / "later", tiny_model(), manifest=manifest)
    done = release(later, tmp_path / "out")
    assert len(done.missing) == 1 and done.missing[0].startswith("corpus ")
    assert [o.state for o in trace_origin(done.model).walk()] == [SOUND, RECORDED, NAMED]
    # Whoever gets the folder can do nothing about it, and nothing in it is wrong; but the way back is not whole.
    assert main(["trace", str(done.model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["complete"] is False


def test_shards_in_half_precision_load_here_and_in_transformers(model: Path, tmp_path: Path) -> None:
    """float16 has 11 bits: values of about 1 differ by at most 2^-11 of themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("biosmith.models.releasing.MEGABYTE", 10_000)
        done = release(model, tmp_path / "out", dtype="float16", shard_megabytes=2)
    shards = sorted(done.model.glob("*.safetensors"))
    assert len(shards) > 2 and done.largest < 30_000
    expected, _ = load_encoder(model)
    found, _ = load_encoder(done.model, dtype=torch.float32)
    for (name, a), (_, b) in zip(expected.named_parameters(), found.named_parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=2**-11, atol=1e-6, msg=name)
    loaded = transformers.AutoModel.from_pretrained(done.model)
    assert loaded.dtype == torch.float16
    assert json.loads((done.model / "config.json").read_text(encoding="utf-8"))["dtype"] == "float16"


def test_wrong_calls_are_refused_before_anything_is_written(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match="valid: float32, float16, bfloat16"):
        release(model, out, dtype="int3")
    with pytest.raises(UsageError, match="does not exist"):
        release(model, out, card=tmp_path / "card.md")
    with pytest.raises(UsageError, match=r"no manifest\.json"):
        release(tmp_path, out)
    with pytest.raises(UsageError, match="cannot have -3 megabytes"):
        release(model, out, shard_megabytes=-3)
    assert not out.exists()


def test_a_released_folder_is_not_taken_for_what_it_was_made_from(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lineage knows the original by its name alone, which the folder itself or another one here may have."""
    out = release(model, tmp_path / "published/model").model
    shutil.rmtree(model.parent)
    expected = [("model", SOUND), ("model", RECORDED), ("corpus", RECORDED), ("file", RECORDED)]
    monkeypatch.chdir(out.parent)
    assert [(o.kind, o.state) for o in trace_origin(Path("model")).walk()] == expected
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "model").mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    assert [(o.kind, o.state) for o in trace_origin(out).walk()] == expected
