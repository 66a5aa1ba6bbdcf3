"""Named entity recognition from file to score."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from biosmith.artefact import digest_file, load_manifest
from biosmith.cli import main
from biosmith.errors import BadInput, UsageError
from biosmith.tasks.batches import pack
from biosmith.tasks.inputs import InputTransform
from biosmith.tasks.ner import evaluate, finetune, load_tuned
from biosmith.tasks.network import load_tagger
from biosmith.tasks.settings import TaggingSettings
from biosmith.tasks.tagged import load_split
from biosmith.tasks.tagging import training_examples

QUICK = TaggingSettings(learning_rate=1e-2, batch_size=8, epochs=2)


def test_a_tiny_model_learns_twenty_sentences(tuned: Path, tagging_data: Path) -> None:
    for split in ("train", "test"):
        report = evaluate(tuned, tagging_data, split)
        assert report.conll.overall.f1 > 0.9
        # The decoder allows no broken tags, so both readings agree.
        assert report.strict.overall == report.conll.overall
        assert report.truncated == 0


def test_a_tagger_whose_weights_are_not_finite_is_refused(
    tuned: Path, tagging_data: Path, tmp_path: Path
) -> None:
    # All of its scores are NaN, which would read as a text without mentions.
    shutil.copytree(tuned, tmp_path / "spoilt")
    tensors = load_file(tmp_path / "spoilt" / "model.safetensors")
    tensors["classifier.weight"][0, 0] = float("nan")
    save_file(tensors, tmp_path / "spoilt" / "model.safetensors", {"format": "pt"})
    with pytest.raises(BadInput, match=r"spoilt: holds numbers that are none .* in classifier.weight"):
        evaluate(tmp_path / "spoilt", tagging_data, "test")


def test_transformers_loads_the_folder_with_equal_logits(tuned: Path, tagging_data: Path) -> None:
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    theirs = AutoModelForTokenClassification.from_pretrained(tuned).eval()
    tokenizer = AutoTokenizer.from_pretrained(tuned)
    tagger = load_tuned(tuned)
    assert theirs.config.id2label == dict(enumerate(tagger.label_set.labels))
    sentences = load_split(tagging_data, "test").sentences
    ours = load_tagger(tuned)
    for sentence in sentences:
        encoded = tokenizer(list(sentence.words), is_split_into_words=True, return_tensors="pt")
        with torch.inference_mode():
            expected = theirs(**encoded).logits[0]
        (example,) = training_examples([sentence], InputTransform(tuned), tagger.label_set, 64)
        assert example.ids.tolist() == encoded["input_ids"][0].tolist()
        with torch.inference_mode():
            logits = ours.logits(pack([example], np.array([0])))
        torch.testing.assert_close(logits, expected[example.picks], atol=1e-5, rtol=0)


def test_the_manifest_says_what_made_the_model(tuned: Path, tagging_data: Path, tiny_model: Path) -> None:
    manifest = load_manifest(tuned, "tuned")
    assert manifest.config["task"] == "ner"
    assert manifest.config["settings"]["epochs"] == 25
    assert manifest.seed == 0
    digests = {item["digest"] for item in manifest.inputs}
    assert {digest_file(tagging_data / "train.tsv"), digest_file(tagging_data / "devel.tsv")} <= digests
    assert digest_file(tiny_model / "model.safetensors") in digests
    # The test split had no part in it.
    assert digest_file(tagging_data / "test.tsv") not in digests
    for name, described in manifest.files.items():
        assert digest_file(tuned / name) == described["digest"]
    lines = [json.loads(x) for x in (tuned / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, 26))
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert not list(tuned.parent.glob(".*.partial"))


def test_two_runs_of_one_seed_predict_the_same(tiny_model: Path, tagging_data: Path, tmp_path: Path) -> None:
    reports = [finetune(tiny_model, tagging_data, tmp_path / name, QUICK) for name in ("a", "b")]
    assert reports[0]["loss"] == reports[1]["loss"]
    assert digest_file(tmp_path / "a/model.safetensors") == digest_file(tmp_path / "b/model.safetensors")
    other = finetune(tiny_model, tagging_data, tmp_path / "c", dataclasses.replace(QUICK, seed=1))
    assert other["loss"] != reports[0]["loss"]


def test_what_does_not_fit_counts_as_missed_and_is_reported(tuned: Path, tmp_path: Path) -> None:
    # Two mentions; the second lies behind the 64 pieces that the model reads: recall is 1 of 2, precision 1 of 1.
    words = ["gout", "is", "rare", *["in"] * 70, "gout"]
    tags = ["B-Disease", *["O"] * 72, "B-Disease"]
    lines = [f"{w}\t{t}" for w, t in zip(words, tags, strict=True)]
    (tmp_path / "test.tsv").write_text("\n".join([*lines, "", "gout\tB-Disease", ""]), encoding="utf-8")
    report = evaluate(tuned, tmp_path)
    assert report.truncated == 74 - 62
    assert (report.truncated_sentences, report.truncated_mentions) == (1, 1)
    assert report.conll.overall.gold == 3
    assert report.conll.overall.found <= 2
    assert report.as_dict()["truncated"] == 12


def test_a_tag_of_the_dev_split_that_training_does_not_have_is_named_with_its_line(
    tiny_model: Path, tagging_data: Path, tmp_path: Path
) -> None:
    text = (tagging_data / "train.tsv").read_text(encoding="utf-8")
    (tmp_path / "train.tsv").write_text(text, encoding="utf-8")
    (tmp_path / "dev.tsv").write_text("gout\tB-Disease\n\ngout\tO\nrare\tB-Diease\n", encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        finetune(tiny_model, tmp_path, tmp_path / "out", QUICK)
    message = str(caught.value)
    assert "dev.tsv, line 4" in message and "'B-Diease'" in message
    assert "valid: B-Chemical, I-Chemical, B-Disease, I-Disease, O" in message
    assert not (tmp_path / "out").exists()


def test_a_label_set_that_does_not_fit_the_model_is_named_with_both_lists(
    tuned: Path, tmp_path: Path
) -> None:
    (tmp_path / "test.tsv").write_text("BRCA1\tB-Gene\ngene\tI-Gene\n", encoding="utf-8")
    with pytest.raises(
        BadInput, match=r"test\.tsv, line 1: .*this file has B-Gene, I-Gene.*valid: B-Chemical"
    ):
        evaluate(tuned, tmp_path)


def test_an_output_that_exists_is_refused_before_anything_is_read(tuned: Path) -> None:
    with pytest.raises(UsageError, match="exists already"):
        finetune(Path("no-model"), Path("no-data"), tuned, QUICK)


def test_a_training_split_without_mentions_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tO\n", encoding="utf-8")
    with pytest.raises(BadInput, match="has no mention"):
        finetune(tiny_model, tmp_path, tmp_path / "out", QUICK)


def test_a_folder_that_is_no_tuned_model_is_refused(
    tiny_model: Path, tagging_data: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="has no label map"):
        evaluate(tiny_model, tagging_data)
    with pytest.raises(UsageError, match="does not exist"):
        evaluate(tmp_path / "absent", tagging_data)


def test_files_without_types_are_learnt_and_scored(tiny_model: Path, tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.tsv").write_text("gout\tB\nis\tO\nrare\tO\n\n" * 8, encoding="utf-8")
    finetune(tiny_model, tmp_path, tmp_path / "out", dataclasses.replace(QUICK, epochs=10))
    report = evaluate(tmp_path / "out", tmp_path)
    assert load_tuned(tmp_path / "out").label_set.labels == ("O", "B", "I")
    assert report.conll.overall.f1 == 1.0


def test_documents_are_learnt_and_scored_by_exact_offsets(tuned: Path, tmp_path: Path) -> None:
    text = "Gout is rare. Heparin does not cause anemia in mice."
    gold = [("Gout", "Disease"), ("Heparin", "Chemical"), ("anemia", "Disease")]
    mentions = [
        {"start": text.index(t), "end": text.index(t) + len(t), "text": t, "type": k} for t, k in gold
    ]
    # No tag can say a mention that ends inside a word: it stays in the gold and counts as missed.
    inside = {"start": 0, "end": 2, "text": "Go", "type": "Disease"}
    for name, more in (("test", []), ("dev", [inside])):
        record = {"id": "1", "text": text, "mentions": [*mentions, *more]}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert evaluate(tuned, tmp_path, "test").conll.overall.gold == 3
    assert evaluate(tuned, tmp_path, "test").conll.overall.f1 > 0.6
    assert evaluate(tuned, tmp_path, "dev").conll.overall.gold == 4


def test_models_of_other_families_are_tuned_through_transformers(
    tagging_data: Path, tiny_model: Path, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer, DistilBertConfig, DistilBertModel

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(tmp_path / "model")
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=32, n_layers=1, n_heads=2, hidden_dim=64, max_position_embeddings=64
    )
    DistilBertModel(config).save_pretrained(tmp_path / "model")
    settings = dataclasses.replace(QUICK, epochs=12)
    finetune(tmp_path / "model", tagging_data, tmp_path / "out", settings)
    assert load_manifest(tmp_path / "out").config["task"] == "ner"
    assert evaluate(tmp_path / "out", tagging_data, "train").conll.overall.f1 > 0.5


def test_the_commands_print_their_contract(
    tiny_model: Path, tagging_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = [
        "finetune",
        "ner",
        "--model",
        str(tiny_model),
        "--data",
        str(tagging_data),
        "--out",
        str(out),
    ]
    assert main([*arguments, "--override", "epochs=1", "learning_rate=0.01", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["epochs"] == 1 and made["labels"][0] == "O" and made["tokens_per_second"] > 0
    assert main(["evaluate", str(out), "--data", str(tagging_data), "--split", "dev", "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert {"metric", "value", "precision", "recall", "f1", "truncated", "strict", "types"} <= set(scored)
    assert scored["value"] == scored["f1"] == made["dev_f1"]
    assert main(["evaluate", str(out), "--data", str(tagging_data)]) == 0
    assert "all (CoNLL)" in capsys.readouterr().out
    assert main([*arguments, "--override", "epochs=1", "--json"]) == 2
    assert "exists already" in json.loads(capsys.readouterr().out)["error"]
    assert main([*arguments[:-1], str(out) + "2", "--override", "epoch=1"]) == 2
    assert "learning_rate" in capsys.readouterr().err


@pytest.mark.parametrize("max_length", [-5, 0, 1, 7])
def test_a_length_that_leaves_no_room_for_words_is_refused(
    tuned: Path, tagging_data: Path, max_length: int
) -> None:
    with pytest.raises(UsageError, match=f"max_length must be at least 8, not {max_length}"):
        evaluate(tuned, tagging_data, max_length=max_length)


def test_checkpoints_of_another_task_are_not_taken_up(
    tiny_model: Path, tagging_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # ner and pico learn the same from the same files, but choose the best epoch by different scores.
    identities = []

    def fit(*_: object, identity: object, **__: object) -> None:
        identities.append(identity)
        raise UsageError("seen enough")

    monkeypatch.setattr("biosmith.tasks.fit_tagging.fit", fit)
    for task in ("ner", "pico"):
        with pytest.raises(UsageError, match="seen enough"):
            finetune(tiny_model, tagging_data, tmp_path / "out", task=task)
    assert identities[0] != identities[1]


def test_the_folder_one_stands_in_can_be_the_output(
    tiny_model: Path, tagging_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its work folder lies beside it: inside, the output would be found filled when training is over.
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    finetune(tiny_model, tagging_data, Path(), TaggingSettings(epochs=1, device="cpu"))
    assert load_manifest(tmp_path / "here").kind == "tuned"
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_a_dev_split_without_mentions_chooses_no_epoch(
    tiny_model: Path, tagging_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Every epoch scores 0 on it, and the first of equals would be kept.
    (tmp_path / "train.tsv").write_bytes((tagging_data / "train.tsv").read_bytes())
    (tmp_path / "dev.tsv").write_text("rare\tO\n", encoding="utf-8")
    made = finetune(tiny_model, tmp_path, tmp_path / "out", TaggingSettings(epochs=3, device="cpu"))
    assert made["epoch"] == 3 and made["dev_value"] is None
    assert "its dev split has no mention, and chooses no epoch" in " ".join(capsys.readouterr().err.split())


def test_a_split_without_mentions_is_said_to_have_no_score(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.tsv").write_text("gout\tO\n", encoding="utf-8")
    assert evaluate(tuned, tmp_path).conll.overall.gold == 0
    assert "its test split has no mention; the score says nothing" in " ".join(
        capsys.readouterr().err.split()
    )
