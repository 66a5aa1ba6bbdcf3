"""A run folder exported: what transformers loads is what was trained."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from biosmith.artefact import Manifest, load_manifest, write_json
from biosmith.cli import main
from biosmith.errors import UsageError
from biosmith.lineage import RECORDED, trace_origin
from biosmith.models import BertConfig, PretrainingModel
from biosmith.pretraining.checkpoints import RunState, save_checkpoint
from biosmith.pretraining.config import MaskedLanguageModel, Recipe
from biosmith.pretraining.exporting import export_run
from biosmith.pretraining.loading import Cursor

SMALL = BertConfig(vocabulary_size=40, layers=2, width=24, heads=2, feed_forward=32, positions=32)
RECIPE = Recipe(
    name="small",
    paper="none",
    model=SMALL,
    batch=dataclasses.replace(Recipe("", "").batch, length=32),
    citations={"model": "nowhere"},
)


def begin_run(folder: Path, recipe: Recipe, steps: tuple[int, ...]) -> dict[int, PretrainingModel]:
    """A run as `pretrain` leaves it, without its log; the model of each checkpoint differs."""
    Manifest(kind="run", seed=1, counts={"vocabulary_digest": "d" * 64, "loss": 2.5}).save(folder)
    write_json(folder / "config.json", recipe)
    (folder / "tokenizer").mkdir()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"piece{i}" for i in range(35))]
    tokenizer = Tokenizer(WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.save(str(folder / "tokenizer" / "tokenizer.json"))
    models = {}
    for step in steps:
        torch.manual_seed(step)
        pairs = recipe.objective("next_sentence_prediction") is not None
        models[step] = PretrainingModel(recipe.model, next_sentence=pairs)
        optimizer = torch.optim.AdamW(models[step].parameters())
        state = RunState(step, Cursor(0, 0), (), 0, {})
        save_checkpoint(folder, models[step], [optimizer], state)
    return models


def logits(model: torch.nn.Module) -> torch.Tensor:
    ids = torch.arange(5, 30)[None]
    with torch.inference_mode():
        out = model.eval()(ids)
    return out.logits if hasattr(out, "logits") else out.masked_language_MV


def test_the_newest_checkpoint_is_exported_with_equal_logits(tmp_path: Path) -> None:
    models = begin_run(tmp_path / "run", RECIPE, (9, 10))
    done = export_run(tmp_path / "run", tmp_path / "model")
    assert (done.step, done.architecture) == (10, "BertForPreTraining")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(done.model)
    torch.testing.assert_close(logits(theirs), logits(models[10]), rtol=0, atol=1e-5)
    assert (done.model / "tokenizer.json").read_bytes() == (
        tmp_path / "run/tokenizer/tokenizer.json"
    ).read_bytes()


def test_a_step_may_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = begin_run(tmp_path / "run", RECIPE, (9, 10))
    call = ["export", str(tmp_path / "run"), "--out", str(tmp_path / "model"), "--step", "9", "--json"]
    assert main(call) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 9
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "model")
    torch.testing.assert_close(logits(theirs), logits(models[9]), rtol=0, atol=1e-5)
    with pytest.raises(UsageError, match="no checkpoint of step 8; valid: 9, 10"):
        export_run(tmp_path / "run", tmp_path / "other", step=8)


def test_a_run_without_next_sentence_prediction_exports_without_its_head(tmp_path: Path) -> None:
    begin_run(tmp_path / "run", dataclasses.replace(RECIPE, objectives=(MaskedLanguageModel(),)), (1,))
    done = export_run(tmp_path / "run", tmp_path / "model")
    assert done.architecture == "BertForMaskedLM"
    _, report = transformers.AutoModelForMaskedLM.from_pretrained(done.model, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]


def test_a_model_trained_without_dropout_is_fine_tuned_with_the_usual_one(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, profile="fast", model=SMALL.without_dropout())
    begin_run(tmp_path / "run", recipe, (1,))
    export_run(tmp_path / "run", tmp_path / "model")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "model")
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.1, 0.1)


def test_an_export_names_its_run_its_recipe_and_its_step(tmp_path: Path) -> None:
    begin_run(tmp_path / "run", RECIPE, (3,))
    manifest = load_manifest(export_run(tmp_path / "run", tmp_path / "model").model, "model")
    assert manifest.inputs[0]["kind"] == "run"
    assert (manifest.config["name"], manifest.counts["step"], manifest.counts["loss"]) == ("small", 3, 2.5)


def test_an_export_knows_its_run_where_that_is_not_at_hand(tmp_path: Path) -> None:
    begin_run(tmp_path / "run", RECIPE, (3,))
    out = export_run(tmp_path / "run", tmp_path / "elsewhere" / "model").model
    shutil.rmtree(tmp_path / "run")
    (origin,) = trace_origin(out).inputs
    assert (origin.kind, origin.state, origin.counts["loss"]) == ("run", RECORDED, 2.5)


def test_what_is_no_finished_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a run folder: it has no config\.json"):
        export_run(tmp_path, tmp_path / "model")
    begin_run(tmp_path / "run", RECIPE, ())
    with pytest.raises(UsageError, match="has no checkpoint yet"):
        export_run(tmp_path / "run", tmp_path / "model")
    (tmp_path / "run/tokenizer/tokenizer.json").unlink()
    (tmp_path / "run/tokenizer").rmdir()
    with pytest.raises(UsageError, match="kept no tokenizer; name the vocabulary"):
        export_run(tmp_path / "run", tmp_path / "model")


def test_a_file_is_no_folder_of_a_tokenizer(tmp_path: Path) -> None:
    begin_run(tmp_path / "run", RECIPE, (10,))
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]), encoding="utf-8")
    with pytest.raises(UsageError, match=r"vocab\.txt is a file; --vocab takes the folder that holds it"):
        export_run(tmp_path / "run", tmp_path / "model", vocabulary=file)


def test_a_model_is_not_exported_as_a_run(tmp_path: Path) -> None:
    begin_run(tmp_path / "run", RECIPE, (1,))
    model = export_run(tmp_path / "run", tmp_path / "model").model
    with pytest.raises(UsageError, match="is a model artefact, not a run artefact"):
        export_run(model, tmp_path / "again")
