"""Runs of latent-variable models: learning, resuming, starting from folders, exporting, refusing."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from biosmith.artefact import write_json
from biosmith.cli import main
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.models.checkpoint import load_encoder
from biosmith.models.vae_folder import load_vae
from biosmith.pretraining.checkpoints import list_checkpoints
from biosmith.pretraining.elbo_run import (
    export_vae_run,
    micro_batches,
    pretrain_vae,
    read_vae_run,
    settle,
)
from biosmith.pretraining.metrics import read_metrics
from biosmith.pretraining.run import Settings
from biosmith.pretraining.sentences import SentenceStore, dress_tokenizer
from pretraining.vae_checks import make_store, tiny_recipe, write_tokenizer


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("vae"))


@pytest.fixture(scope="module")
def run(sentences: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 12 steps with checkpoints at 4, 8 and 12."""
    out = tmp_path_factory.mktemp("runs") / "run"
    pretrain_vae(tiny_recipe(), sentences, out)
    return out


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "vae"
    export_vae_run(run, out)
    return out


def losses(run: Path) -> list[Any]:
    return [{k: v for k, v in line.items() if "per_second" not in k} for line in read_metrics(run)]


def test_a_run_resumed_from_any_checkpoint_is_the_run_that_was_not_stopped(
    run: Path, sentences: Path, tmp_path: Path
) -> None:
    # Parameters and log lines are equal to the last bit, noise and dropout included.
    other = tmp_path / "run"
    shutil.copytree(run, other)
    for name in ("step-12", "step-8"):
        shutil.rmtree(other / "checkpoints" / name)
    pretrain_vae(tiny_recipe(), sentences, other, resume=True)
    assert losses(other) == losses(run)
    one, two = (list_checkpoints(folder)[-1] / "model.safetensors" for folder in (run, other))
    assert one.read_bytes() == two.read_bytes()


def test_the_log_has_what_the_field_reports(run: Path) -> None:
    last = read_metrics(run)[-1]
    wanted = {
        "step", "loss", "learning_rate", "tokens_per_second", "reconstruction_loss", "kl", "beta", "active_units",
        "mutual_information", "eval_loss", "eval_kl", "eval_reconstruction", "eval_perplexity", "sentences_per_second",
    }  # fmt: skip
    assert wanted <= last.keys()
    assert last["eval_loss"] == pytest.approx(last["eval_kl"] + last["eval_reconstruction"])
    assert (run / "loss.png").stat().st_size > 1000


def test_an_autoencoder_tells_more_of_a_sentence_than_any_language_model_could(tmp_path: Path) -> None:
    # The made language has an entropy of 9.80 nats: two nouns of ten, a verb of six, a tail of three kinds with none, one
    # or two more nouns. Whoever says an unseen sentence back in fewer nats must have read it.
    entropy = 2 * math.log(10) + math.log(6) + math.log(3) + math.log(10) / 3 + 2 * math.log(10) / 3
    assert entropy == pytest.approx(9.80, abs=0.01)
    recipe = tiny_recipe(steps=75, checkpoint_every=75, log_every=75)
    config = recipe.model.without_dropout()
    wide = {
        "initializer_range": 0.2
    }  # narrow layers need larger weights for vectors to differ from the start
    config = dataclasses.replace(
        config,
        encoder=dataclasses.replace(config.encoder, **wide),
        decoder=dataclasses.replace(config.decoder, **wide),
    )
    recipe = dataclasses.replace(
        recipe,
        model=config,
        objective=dataclasses.replace(recipe.objective, beta=0.0),
        optimizer=dataclasses.replace(recipe.optimizer, learning_rate=6e-3),
        batch=dataclasses.replace(recipe.batch, sentences=38, micro_batch_tokens=400),
        evaluation=dataclasses.replace(recipe.evaluation, sentences=40),
    )
    outcome = pretrain_vae(recipe, make_store(tmp_path, documents=300), tmp_path / "vae")
    assert outcome.reconstruction is not None
    assert outcome.reconstruction < entropy - 0.4
    assert outcome.mutual_information is not None
    assert outcome.mutual_information > 1.0
    assert not outcome.collapsed


def test_a_collapsed_run_is_named_with_what_helps(
    sentences: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A constant beta of 1 from the first step without free bits: the textbook collapse (Bowman et al., 2016).
    recipe = tiny_recipe(steps=60, checkpoint_every=60, log_every=20)
    objective = dataclasses.replace(recipe.objective, beta=1.0, schedule="constant", free_bits=0.0)
    optimizer = dataclasses.replace(recipe.optimizer, learning_rate=1e-2)
    outcome = pretrain_vae(
        dataclasses.replace(recipe, objective=objective, optimizer=optimizer), sentences, tmp_path / "run"
    )
    assert outcome.collapsed
    said = " ".join(capsys.readouterr().err.split())
    assert "the posterior has collapsed" in said
    assert "objective.free_bits" in said
    # Whoever exports it may not have seen the log.
    export_vae_run(tmp_path / "run", tmp_path / "model")
    assert "the posterior of" in capsys.readouterr().err


def test_a_vocabulary_is_not_named_for_a_run_that_keeps_two(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(run), "--out", str(tmp_path / "model"), "--vocab", str(tmp_path)]) == 2
    assert "--vocab is not for" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_encoder_and_decoder_are_loaded_by_transformers_alone(exported: Path) -> None:
    # The encoder's hidden states equal ours; the decoder is GPT-2 without the latent vector.
    vae = load_vae(exported)
    theirs = AutoModel.from_pretrained(str(exported / "encoder")).eval()
    ids = torch.tensor([[2, 5, 6, 7, 3]])
    with torch.no_grad():
        expected = theirs(ids).pooler_output
        assert vae.model.encoder is not None
        assert vae.model.encoder.pooler is not None
        found = vae.model.encoder.pooler(vae.model.encoder(ids)[:, 0])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        decoder = AutoModelForCausalLM.from_pretrained(str(exported / "decoder")).eval()
        assert decoder(torch.tensor([[3, 4]])).logits.shape == (1, 2, 25)
    torch.testing.assert_close(decoder.lm_head.weight, vae.model.decoder.words.weight)
    tokenizer = AutoTokenizer.from_pretrained(str(exported / "decoder"))
    assert tokenizer.convert_tokens_to_ids("<EOS>") == vae.model.config.decoder.end_id


def test_the_encoder_of_a_trained_model_is_a_model_as_any_other(exported: Path) -> None:
    encoder, config = load_encoder(exported / "encoder")
    assert config.width == 32
    assert encoder.pooler is not None


def test_a_run_starts_from_the_folders_of_another(exported: Path, sentences: Path, tmp_path: Path) -> None:
    # The parts of a model are a BERT and a GPT-2 folder: what --init and --init-decoder take.
    out = tmp_path / "run"
    recipe = tiny_recipe(steps=1, checkpoint_every=1)
    pretrain_vae(recipe, sentences, out, init=exported / "encoder", init_decoder=exported / "decoder")
    assert read_vae_run(out).model.decoder.vocabulary_size == 25
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert [item["kind"] for item in manifest["inputs"]][:2] == ["sentences", "model"]


def test_a_decoder_of_another_vocabulary_is_refused(exported: Path, sentences: Path, tmp_path: Path) -> None:
    other = tmp_path / "decoder"
    shutil.copytree(exported / "decoder", other)
    write_tokenizer(tmp_path / "words", gpt2=True, more=("melanoma",))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tmp_path / "words" / name, other / name)
    with pytest.raises(
        BiosmithError, match=r"another decoder vocabulary .* make the sentences again with --decoder-vocab"
    ):
        pretrain_vae(tiny_recipe(), sentences, tmp_path / "run", init_decoder=other)
    assert not (tmp_path / "run").exists()


def test_bert_s_marks_are_found_in_a_vocabulary_that_has_no_configuration(tmp_path: Path) -> None:
    bare = write_tokenizer(tmp_path / "bare")
    for path in bare.iterdir():
        if path.name != "tokenizer.json":
            path.unlink()
    marks = dress_tokenizer(bare, tmp_path / "dressed")
    pieces = AutoTokenizer.from_pretrained(str(bare)).get_vocab()
    assert (marks["pad"], marks["begin"], marks["end"]) == tuple(
        pieces[p] for p in ("[PAD]", "[CLS]", "[SEP]")
    )
    assert marks["size"] == len(pieces)


def test_an_encoder_without_the_marks_of_the_sentences_is_refused(
    exported: Path, sentences: Path, tmp_path: Path
) -> None:
    # The store marks a sentence's ends with tokens for which the encoder has no embedding.
    store = tmp_path / "sentences"
    shutil.copytree(sentences, store)
    manifest = json.loads((store / "manifest.json").read_text(encoding="utf-8"))
    size = manifest["counts"]["reading"]["size"]
    manifest["counts"]["reading"] |= {"size": size + 2, "begin": size, "end": size + 1}
    write_json(store / "manifest.json", manifest)
    with pytest.raises(
        BiosmithError, match=r"another encoder vocabulary .* make the sentences again with --vocab"
    ):
        pretrain_vae(tiny_recipe(), store, tmp_path / "run", init=exported / "encoder")
    assert not (tmp_path / "run").exists()


def test_a_model_whose_vocabulary_was_exchanged_is_refused(exported: Path, tmp_path: Path) -> None:
    other = tmp_path / "vae"
    shutil.copytree(exported, other)
    write_tokenizer(tmp_path / "words", gpt2=True, more=("melanoma",))
    shutil.copyfile(tmp_path / "words" / "tokenizer.json", other / "decoder" / "tokenizer.json")
    with pytest.raises(BadInput, match="another vocabulary than the model was trained with"):
        load_vae(other)


def test_latent_sizes_that_do_not_match_are_named(exported: Path, tmp_path: Path) -> None:
    other = tmp_path / "vae"
    shutil.copytree(exported, other)
    raw = json.loads((other / "config.json").read_text(encoding="utf-8"))
    (other / "config.json").write_text(json.dumps({**raw, "latent_size": 16}), encoding="utf-8")
    with pytest.raises(
        BadInput, match=r"to_latent.weight has shape \(16, 32\); a latent size of 16.*\(32, 32\)"
    ):
        load_vae(other)


@pytest.mark.parametrize(
    ("assignments", "says"),
    [
        ({"seed": 43}, r"seed \(the run has 42, the call 43\)"),
        ({"steps": 13}, r"steps \(the run has 12, the call 13\)"),
    ],
)
def test_a_run_is_not_resumed_with_another_recipe(
    run: Path, sentences: Path, assignments: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        pretrain_vae(tiny_recipe(**assignments), sentences, run, resume=True)


def test_held_out_sentences_are_no_longer_than_those_of_the_training(tmp_path: Path) -> None:
    # Sentences of 30 pieces in every tenth document; 12 positions hold none of them, in training or held out.
    long = "The tumor " + " ".join(["inhibits the kinase in a mouse"] * 4) + "."
    store = make_store(tmp_path, documents=2, extra=(f"{long} The gene binds the cell.",) * 60)
    recipe = tiny_recipe(steps=2, log_every=1, checkpoint_every=2)
    model = recipe.model
    recipe = dataclasses.replace(
        recipe,
        model=dataclasses.replace(
            model,
            encoder=dataclasses.replace(model.encoder, positions=12),
            decoder=dataclasses.replace(model.decoder, positions=13),
        ),
        batch=dataclasses.replace(recipe.batch, length=12),
    )
    outcome = pretrain_vae(recipe, store, tmp_path / "run")
    # "The gene binds the cell ." and its end are 7 tokens of at most ln(31) nats or so while nothing is learnt.
    assert outcome.reconstruction is not None and outcome.reconstruction < 7 * math.log(31) * 1.2


def test_a_folder_that_holds_something_is_left_alone(run: Path, sentences: Path) -> None:
    with pytest.raises(UsageError, match="exists already"):
        pretrain_vae(tiny_recipe(), sentences, run)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"length": 3}, "no sentence of at most"), ({"micro_batch_tokens": 5}, "holds no sentence")],
)
def test_a_call_that_cannot_work_leaves_no_run_behind(
    change: dict[str, int], words: str, sentences: Path, tmp_path: Path
) -> None:
    recipe = tiny_recipe()
    recipe = dataclasses.replace(recipe, batch=dataclasses.replace(recipe.batch, **change))
    with pytest.raises(UsageError, match=words):
        pretrain_vae(recipe, sentences, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_damaged_checkpoint_is_named(run: Path, sentences: Path, tmp_path: Path) -> None:
    other = tmp_path / "run"
    shutil.copytree(run, other)
    file = list_checkpoints(other)[-1] / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(BadInput, match=r"model.safetensors: is damaged"):
        export_vae_run(other, tmp_path / "out")


def test_what_a_call_leaves_open_is_that_of_the_run(run: Path, sentences: Path) -> None:
    # A run that was begun on another kind of device had another precision and micro-batch chosen for it.
    saved = read_vae_run(run)
    settled = dataclasses.replace(
        saved, precision="mixed", batch=dataclasses.replace(saved.batch, micro_batch_tokens=999)
    )
    write_json(run / "config.json", settled)
    try:
        recipe = tiny_recipe()
        batch = dataclasses.replace(recipe.batch, micro_batch_tokens=None)
        assert pretrain_vae(dataclasses.replace(recipe, batch=batch), sentences, run, resume=True).steps == 12
    finally:
        write_json(run / "config.json", saved)


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        (Settings(parallel="fsdp"), "--parallel fsdp"),
        (Settings(tensor_parallel=2), "--tensor-parallel"),
        (Settings(activation_checkpointing=True), "--activation-checkpointing"),
    ],
)
def test_options_without_meaning_are_refused(
    sentences: Path, tmp_path: Path, settings: Settings, option: str
) -> None:
    with pytest.raises(UsageError, match=f"{option} is not for"):
        pretrain_vae(tiny_recipe(), sentences, tmp_path / "run", settings=settings)
    assert not (tmp_path / "run").exists()


def test_devices_share_the_micro_batches_of_an_update_evenly_or_not_at_all(sentences: Path) -> None:
    store, recipe = SentenceStore.open(sentences), tiny_recipe()
    open_batch = dataclasses.replace(recipe.batch, sentences=200, length=16, micro_batch_tokens=None)
    for devices in (1, 2, 3, 4):
        settled = settle(
            dataclasses.replace(recipe, batch=open_batch), store, None, None, torch.device("cpu"), devices
        )
        assert micro_batches(settled, store) % devices == 0
    fixed = dataclasses.replace(open_batch, micro_batch_tokens=10**6)
    with pytest.raises(
        UsageError, match=r"is 1 micro-batches of 1,000,000 tokens, which 2 devices cannot share"
    ):
        settle(dataclasses.replace(recipe, batch=fixed), store, None, None, torch.device("cpu"), 2)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_damaged_model_to_start_from_leaves_no_run_behind(
    sentences: Path, exported: Path, tmp_path: Path, part: str
) -> None:
    start, out = tmp_path / "start", tmp_path / "run"
    shutil.copytree(exported, start)
    weights = start / part / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(BadInput, match=r"model\.safetensors"):
        pretrain_vae(tiny_recipe(), sentences, out, init=start / "encoder", init_decoder=start / "decoder")
    assert not out.exists()
