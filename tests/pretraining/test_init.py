"""Continued pretraining: a run that begins from a Hugging Face folder."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from biosmith.artefact import describe_input, load_manifest
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.models.bert import BertConfig, PretrainingModel
from biosmith.models.saving import save_model
from biosmith.pretraining.config import Batch, Evaluation, Linear
from biosmith.pretraining.exporting import export_run
from biosmith.pretraining.growing import NewLayers
from biosmith.pretraining.run import pretrain
from biosmith.tokens.store import VocabularyMark, write_store
from biosmith.tokens.vocabulary import load_vocabulary
from pretraining.test_run import INLINE, TINY

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(95))]
RECIPE = replace(
    TINY,
    steps=2,
    log_every=1,
    batch=Batch(tokens=1024, length=64),
    schedule=Linear(warmup=0.5),
    evaluation=Evaluation(0, 4),
)


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """A model of another width than the recipe's, with a vocabulary of 100 pieces."""
    vocabulary = tmp_path / "vocabulary"
    vocabulary.mkdir()
    (vocabulary / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    (vocabulary / "tokenizer_config.json").write_text(
        '{"do_lower_case": false, "tokenizer_class": "BertTokenizer"}'
    )
    torch.manual_seed(0)
    config = BertConfig(vocabulary_size=100, layers=2, width=24, heads=2, feed_forward=32, positions=128)
    return save_model(tmp_path / "start", PretrainingModel(config), tokenizer_from=vocabulary)


def make_tokens(folder: Path, mark: VocabularyMark) -> Path:
    rng = np.random.default_rng(0)
    documents = [(rng.integers(5, 100, 60), np.ones(60, bool), np.arange(60) % 15 == 0) for _ in range(40)]
    write_store(folder, mark, documents)
    return folder


def test_a_run_goes_on_from_the_weights_and_the_architecture_of_a_folder(start: Path, tmp_path: Path) -> None:
    tokens = make_tokens(tmp_path / "tokens", load_vocabulary(start).mark)
    out = tmp_path / "run"
    pretrain(RECIPE, tokens, out, init=start, settings=INLINE)
    config = json.loads((out / "config.json").read_text())["model"]
    assert (config["width"], config["layers"], config["vocabulary_size"]) == (24, 2, 100)
    # The first update of a warm-up has learning rate 0 and the second half the peak, so the weights are still close.
    before = load_file(start / "model.safetensors")["bert.embeddings.word_embeddings.weight"]
    after = load_file(out / "checkpoints" / "step-2" / "model.safetensors")["encoder.embeddings.words.weight"]
    assert not torch.equal(before, after) and (before - after).abs().max() < 0.01
    inputs = load_manifest(out, "run").inputs
    assert [i["path"] for i in inputs] == [str(tokens), str(start)]
    pretrain(RECIPE, tokens, out, init=start, resume=True, settings=INLINE)
    with pytest.raises(UsageError, match=f"was begun with --init {start}"):
        pretrain(RECIPE, tokens, out, resume=True, settings=INLINE)


def test_tokens_of_another_vocabulary_are_refused_and_both_are_named(start: Path, tmp_path: Path) -> None:
    mark = replace(load_vocabulary(start).mark, digest="3f9a1c" + "0" * 58, size=90)
    tokens = make_tokens(tmp_path / "tokens", mark)
    with pytest.raises(BiosmithError) as caught:
        pretrain(RECIPE, tokens, tmp_path / "run", init=start, settings=INLINE)
    text = str(caught.value)
    assert f"{tokens} was made with vocabulary 3f9a1c (90 pieces, cased)" in text
    assert f"{start} has" in text and f"Tokenize again with --vocab {start}" in text
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_resumed_with_another_model_to_start_from(start: Path, tmp_path: Path) -> None:
    tokens = make_tokens(tmp_path / "tokens", load_vocabulary(start).mark)
    pretrain(RECIPE, tokens, tmp_path / "run", init=start, settings=INLINE)
    torch.manual_seed(1)
    config = BertConfig(vocabulary_size=100, layers=2, width=24, heads=2, feed_forward=32, positions=128)
    other = save_model(tmp_path / "other", PretrainingModel(config), tokenizer_from=start)
    with pytest.raises(UsageError, match=f"begun with --init {start}, which is another model than {other}"):
        pretrain(RECIPE, tokens, tmp_path / "run", init=other, resume=True, settings=INLINE)


def test_a_run_keeps_no_vocabulary_but_that_of_its_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The folder that the tokens name is there, but another vocabulary was trained into it meanwhile.
    folder = tmp_path / "vocabulary"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    tokens = make_tokens(tmp_path / "tokens", load_vocabulary(folder).mark)
    replace(load_manifest(tokens, "tokens"), inputs=[{"path": str(folder), "kind": "folder"}]).save(tokens)
    pretrain(RECIPE, tokens, tmp_path / "one", settings=INLINE)
    assert (tmp_path / "one" / "tokenizer" / "vocab.txt").is_file()
    (folder / "vocab.txt").write_text("\n".join([*WORDS[:5], *WORDS[:4:-1]]) + "\n", encoding="utf-8")
    pretrain(RECIPE, tokens, tmp_path / "two", settings=INLINE)
    assert not (tmp_path / "two" / "tokenizer").exists()
    assert "name it again when the model is exported" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", ["vocab.txt", "pieces.txt", "tokenizer.json"])
def test_a_run_keeps_the_vocabulary_of_tokens_that_were_made_with_a_file(name: str, tmp_path: Path) -> None:
    # Cased pieces: a vocab.txt does not say so, so that what is written beside it has to.
    words = [*WORDS[:-1], "Aspirin"]
    (tmp_path / "given").mkdir()
    file = tmp_path / "given" / name
    if name.endswith(".txt"):
        file.write_text("\n".join(words) + "\n", encoding="utf-8")
    else:
        (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        load_vocabulary(tmp_path / "vocab.txt").tokenizer.save(str(file))
    mark = load_vocabulary(file).mark
    tokens = make_tokens(tmp_path / "tokens", mark)
    replace(load_manifest(tokens, "tokens"), inputs=[describe_input(file)]).save(tokens)
    pretrain(RECIPE, tokens, tmp_path / "run", settings=INLINE)
    assert load_vocabulary(tmp_path / "run" / "tokenizer").mark == mark
    model = export_run(tmp_path / "run", tmp_path / "model").model
    assert load_vocabulary(model).mark == mark
    pieces = AutoTokenizer.from_pretrained(model).tokenize("Aspirin w3")
    assert pieces == ["Aspirin", "w3"]


def test_a_run_is_not_resumed_when_a_folder_without_a_manifest_holds_other_weights(
    start: Path, tmp_path: Path
) -> None:
    (start / "manifest.json").unlink()  # as other tools make them
    tokens = make_tokens(tmp_path / "tokens", load_vocabulary(start).mark)
    pretrain(RECIPE, tokens, tmp_path / "run", init=start, settings=INLINE)
    assert load_manifest(tmp_path / "run").inputs[1]["digest"]
    pretrain(RECIPE, tokens, tmp_path / "run", init=start, resume=True, settings=INLINE)
    weights = load_file(start / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in weights.items()}, start / "model.safetensors")
    with pytest.raises(UsageError, match="which is another model than"):
        pretrain(RECIPE, tokens, tmp_path / "run", init=start, resume=True, settings=INLINE)


@pytest.mark.parametrize("new_layers", ["stack", "identity"])
def test_a_run_goes_on_with_more_layers_than_the_folder_has(
    start: Path, tmp_path: Path, new_layers: NewLayers
) -> None:
    tokens = make_tokens(tmp_path / "tokens", load_vocabulary(start).mark)
    out = tmp_path / "run"
    call = partial(pretrain, RECIPE, tokens, out, init=start, settings=INLINE)
    call(layers=5, new_layers=new_layers)
    assert json.loads((out / "config.json").read_text())["model"]["layers"] == 5
    assert load_manifest(out, "run").counts["new_layers"] == new_layers
    before = load_file(start / "model.safetensors")
    after = load_file(out / "checkpoints" / "step-2" / "model.safetensors")
    source = 3 % 2 if new_layers == "stack" else 1
    name = "attention.output.dense.weight"
    wanted = before[f"bert.encoder.layer.{source}.{name}"] * (new_layers == "stack")
    assert (after["encoder.layers.3.attention.output.weight"] - wanted).abs().max() < 0.01
    call(layers=5, new_layers=new_layers, resume=True)
    with pytest.raises(UsageError, match="layers"):
        call(resume=True)
    with pytest.raises(UsageError, match=f"was begun with new layers '{new_layers}'"):
        call(layers=5, new_layers="stack" if new_layers == "identity" else "identity", resume=True)


def test_layers_need_a_model_to_go_on_from_with_fewer(start: Path, tmp_path: Path) -> None:
    tokens = make_tokens(tmp_path / "tokens", load_vocabulary(start).mark)
    with pytest.raises(UsageError, match="name it with --init"):
        pretrain(RECIPE, tokens, tmp_path / "run", layers=4, settings=INLINE)
    with pytest.raises(UsageError, match="a model of 2 layers cannot grow to 2"):
        pretrain(RECIPE, tokens, tmp_path / "run", init=start, layers=2, settings=INLINE)
    assert not (tmp_path / "run").exists()


def test_a_damaged_model_to_start_from_leaves_no_run_behind(start: Path, tmp_path: Path) -> None:
    # A folder that was begun would refuse the next try, as the mended model is another one.
    tokens = make_tokens(tmp_path / "tokens", load_vocabulary(start).mark)
    weights, out = start / "model.safetensors", tmp_path / "run"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    for resume in (False, True):
        with pytest.raises(BadInput, match=r"model\.safetensors"):
            pretrain(RECIPE, tokens, out, init=start, resume=resume, settings=INLINE)
        assert not out.exists()
    weights.write_bytes(whole)
    pretrain(RECIPE, tokens, out, init=start, settings=INLINE)
