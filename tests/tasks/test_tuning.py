"""Fine-tuning from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import biosmith
from biosmith.artefact import load_manifest
from biosmith.bench.mock import FOLDER
from biosmith.errors import UsageError


def test_a_task_is_tuned_in_two_lines_and_predicts(tmp_path: Path, tiny_model: Path) -> None:
    tuned = biosmith.finetune(
        tiny_model,
        "mock-relations",
        data=FOLDER,
        out=tmp_path / "out",
        device="cpu",
        epochs=1,
        features="cls",
    )
    instance = biosmith.Instance("1", "@CHEMICAL$ blocks @GENE$ .", "")
    predictions = tuned.predict([instance])
    assert predictions.values[0] in ("false", "activates", "inhibits") and predictions.truncated == 0
    assert load_manifest(tmp_path / "out").config["task"] == "relation"
    # Without a folder the model is the same.
    unsaved = biosmith.finetune(
        tiny_model, "mock-relations", data=FOLDER, device="cpu", epochs=1, features="cls"
    )
    assert unsaved.predict([instance]) == predictions


@pytest.mark.parametrize("dataset", [dataset.about.name for dataset in biosmith.suite("mock").datasets])
def test_every_kind_of_dataset_is_tuned_on(dataset: str, tmp_path: Path, tiny_model: Path) -> None:
    tuned = biosmith.finetune(
        tiny_model, dataset, data=FOLDER, out=tmp_path / "out", device="cpu", epochs=1, max_length=64
    )
    instances = biosmith.task(dataset).load(FOLDER, "test")[:2]
    assert len(tuned.predict(instances).values) >= 1


def test_an_unknown_setting_is_named_with_the_valid_ones(tiny_model: Path) -> None:
    with pytest.raises(UsageError, match=r"'epoch'.*valid: learning_rate, batch_size"):
        biosmith.finetune(tiny_model, "mock-relations", data=FOLDER, epoch=1)
