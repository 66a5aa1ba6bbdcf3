"""Reconstruction, interpolation, sampling and analogy; their scores and their page; the commands."""

from __future__ import annotations

import json
import math
import random
import shutil
from pathlib import Path

import pytest
import sacrebleu
import torch
from safetensors.torch import load_file, save_file

from biosmith.artefact import write_json
from biosmith.cli import main
from biosmith.errors import BadInput, UsageError
from biosmith.generate.decoding import Decoding
from biosmith.generate.page import Pair, Way, write_page
from biosmith.generate.scores import bleu, distinct, edit_distance, self_bleu
from biosmith.generate.sentences import (
    Step,
    analogy,
    between,
    encode,
    interpolate,
    readable,
    reconstruct,
    sample,
    summarise_reconstructions,
    write,
)
from biosmith.lineage import SOUND, trace_origin
from biosmith.models.releasing import release
from biosmith.models.vae_folder import LoadedVae, load_vae, save_vae
from biosmith.models.vae_scoring import log_likelihoods
from biosmith.rejects import Rejects
from pretraining.vae_checks import tiny_recipe

ONE, OTHER, THIRD = (
    "The kinase binds the receptor.",
    "The drug inhibits the tumor in a mouse.",
    "The gene regulates the cell.",
)


def test_a_line_goes_straight_and_an_arc_keeps_the_length() -> None:
    one, other = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    places, line = between(one, other, 3)
    assert places == [0.0, 0.5, 1.0]
    assert line.tolist() == [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    _, arc = between(one, other, 5, "spherical")
    assert arc.norm(dim=1).tolist() == pytest.approx([1.0] * 5)
    assert arc[2].tolist() == pytest.approx([math.sqrt(0.5)] * 2)


def test_an_arc_between_vectors_of_one_direction_is_the_line() -> None:
    # The angle is 0 (or half a turn), and its sine would divide.
    one = torch.tensor([1.0, 2.0])
    for other in (one * 3, one, -one):
        _, arc = between(one, other, 3, "spherical")
        assert torch.isfinite(arc).all()
        assert arc[-1].tolist() == pytest.approx(other.tolist())


def test_an_interpolation_begins_and_ends_with_the_reconstructions(vae: LoadedVae) -> None:
    back = [item.written for item in reconstruct(vae, [ONE, OTHER])]
    for way in ("linear", "spherical"):
        path = interpolate(vae, ONE, OTHER, 4, way)  # type: ignore[arg-type]
        assert len(path) == 4
        assert [path[0].written, path[-1].written] == back


def test_a_reconstruction_has_the_perplexity_of_its_input_given_its_latent_vector(vae: LoadedVae) -> None:
    # exp(-log p(x|z) / tokens): 1.000 if every word is certain, as the paper's table has for the input itself.
    item = reconstruct(vae, [ONE])[0]
    pieces = vae.write([ONE])
    expected = math.exp(-log_likelihoods(vae.model, pieces, encode(vae, [ONE])).item() / (len(pieces[0]) + 1))
    assert item.perplexity == pytest.approx(expected)
    assert item.text == ONE
    scores = summarise_reconstructions(vae, reconstruct(vae, [ONE, OTHER, THIRD]))
    assert {"bleu", "self_bleu", "distinct_1", "edit_distance", "negative_elbo", "kl"} <= scores.keys()
    assert scores["negative_elbo"] == pytest.approx(scores["kl"] + scores["reconstruction"])


def test_an_analogy_of_equal_sentences_is_the_reconstruction(vae: LoadedVae) -> None:
    # z_b - z_a + z_c is z_c where a and b are the same.
    assert analogy(vae, ONE, ONE, THIRD).written == reconstruct(vae, [THIRD])[0].written


def test_samples_are_reproducible_by_their_seed(vae: LoadedVae) -> None:
    how = Decoding("nucleus", seed=3, most_pieces=12)
    assert sample(vae, 4, how) == sample(vae, 4, how)
    assert sample(vae, 4, how) != sample(vae, 4, Decoding("nucleus", seed=4, most_pieces=12))


def test_a_draw_from_the_posterior_depends_on_the_seed_only(vae: LoadedVae) -> None:
    one, same, other = (encode(vae, [ONE], seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_empty_and_over_long_sentences_are_set_aside_with_their_number_and_reason(vae: LoadedVae) -> None:
    rejects = Rejects()
    kept = readable(vae, [ONE, "  ", "The cell " * 30, "two\nlines"], rejects)
    assert kept == [ONE, "two lines"]
    assert [item["record"] for item in rejects.items] == ["number 2", "number 3"]
    assert "is empty" in rejects.items[0]["reason"]
    assert "is over-long: 62 tokens, the model takes 20" in rejects.items[1]["reason"]
    with pytest.raises(BadInput, match=r"number 1: is empty"):
        readable(vae, [""])


def test_scores_of_the_field_are_what_they_are_by_hand() -> None:
    assert bleu([ONE], [ONE]) == pytest.approx(100.0)
    assert bleu([ONE], ["Quite another thing was said here."]) < 10
    assert distinct(["a b a b"], 1) == pytest.approx(0.5)
    assert distinct(["a b a b"], 2) == pytest.approx(2 / 3)
    assert distinct(["a"], 2) is None
    assert edit_distance("a b c d", "a x c") == 2
    same, different = self_bleu([OTHER] * 3), self_bleu([ONE, OTHER, "Nothing else was seen there today."])
    assert same == pytest.approx(100.0)
    assert different is not None
    assert different < 50
    assert self_bleu([ONE]) is None


def test_self_bleu_is_that_of_sacrebleu_against_all_others() -> None:
    """References are many here, and each is counted once: the sums have to come out as if they were not."""
    words = ["the", "tumor,", "IL-6", "(mouse)", "p<0.05", "a", "grows."]
    draw = random.Random(0)
    for count in (2, 3, 12):
        texts = [" ".join(draw.choices(words, k=draw.choice([0, 1, 2, 9]))) for _ in range(count)]
        scores = [sacrebleu.sentence_bleu(t, texts[:n] + texts[n + 1 :]).score for n, t in enumerate(texts)]
        assert self_bleu(texts) == pytest.approx(sum(scores) / count)


def test_a_released_model_is_whole_and_writes_the_same(
    vae: LoadedVae, vae_folder: Path, tmp_path: Path
) -> None:
    """Encoder and decoder are folders of their own within it, the encoder with a manifest of its own."""
    out = release(vae_folder, tmp_path / "out").model
    names = {str(path.relative_to(out)) for path in out.rglob("*")}
    lineages = {"lineage.json", "encoder/lineage.json"}
    assert names == {str(path.relative_to(vae_folder)) for path in vae_folder.rglob("*")} | lineages
    assert sample(load_vae(out), 3) == sample(vae, 3)
    for folder in (out, out / "encoder"):
        assert trace_origin(folder).state == SOUND
    half = release(vae_folder, tmp_path / "half", dtype="bfloat16").model
    for part in ("encoder", "decoder"):
        assert {t.dtype for t in load_file(half / part / "model.safetensors").values()} == {torch.bfloat16}
    assert sample(load_vae(half), 1)


def test_a_tied_output_layer_alone_is_the_word_embedding_of_a_decoder(
    vae: LoadedVae, vae_folder: Path, tmp_path: Path
) -> None:
    """Of two tensors that are one, `safetensors.torch.save_model` writes the name that is first in the alphabet."""
    folder = tmp_path / "vae"
    shutil.copytree(vae_folder, folder)
    tensors = load_file(folder / "decoder/model.safetensors")
    tensors["lm_head.weight"] = tensors.pop("transformer.wte.weight")
    save_file(tensors, folder / "decoder/model.safetensors")
    assert sample(load_vae(folder), 1) == sample(vae, 1)


def test_a_file_of_sentences_is_cut_at_its_line_ends_alone(
    vae_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mark of the encoding at its beginning and Unicode's rarer line ends are no sentences' business."""
    file = tmp_path / "sentences.txt"
    file.write_bytes(f"\ufeff{ONE}\r\n{OTHER[:5]}\u2028{OTHER[5:]}\n".encode())
    assert main(["generate", "reconstruct", "--model", str(vae_folder), "--file", str(file), "--json"]) == 0
    texts = [row["text"] for row in json.loads(capsys.readouterr().out)["sentences"]]
    assert texts == [ONE, f"{OTHER[:5]} {OTHER[5:]}"]


def test_the_page_marks_what_a_step_changes_and_escapes_sentences(tmp_path: Path) -> None:
    steps = [Step(0.0, "a b <i>c</i>", 1.5), Step(1.0, "a x <i>c</i>", 2.0)]
    file = write_page(
        tmp_path / "p.html", [Pair("<b>one", "two", [Way("linear", steps), Way("spherical", steps)])], "T"
    )
    page = file.read_text(encoding="utf-8")
    assert "<mark>x</mark>" in page
    assert page.count("<mark>") == 2  # one a path: the first sentence has nothing above it
    assert "&lt;i&gt;c&lt;/i&gt;" in page
    assert "<i>" not in page
    assert "&lt;b&gt;one" in page
    assert "http" not in page  # it loads nothing


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_commands_write_what_the_functions_do(
    vae: LoadedVae, vae_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ("--model", str(vae_folder))
    out = tmp_path / "back.jsonl"
    code, data = run(
        capsys, "generate", "reconstruct", *model, "--text", ONE, "--text", "", "--out", str(out)
    )
    assert code == 3  # one sentence was set aside
    assert data["set_aside"] == 1
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["written"] for row in rows] == [item.written for item in reconstruct(vae, [ONE])]
    assert (tmp_path / "back.jsonl.rejects.jsonl").is_file()
    page = tmp_path / "paths.html"
    code, data = run(
        capsys, "generate", "interpolate", *model, "--text", ONE, OTHER, "--steps", "3", "--html", str(page)
    )
    assert code == 0
    assert len(data["paths"]) == 6  # type: ignore[arg-type]
    assert "spherical" in page.read_text(encoding="utf-8")
    code, data = run(capsys, "generate", "sample", *model, "--count", "3", "--seed", "1")
    assert code == 0
    assert len(data["sentences"]) == 3  # type: ignore[arg-type]
    code, data = run(capsys, "generate", "analogy", *model, "--text", ONE, OTHER, THIRD)
    assert code == 0
    assert data["written"] == analogy(vae, ONE, OTHER, THIRD).written


def test_an_infinite_perplexity_is_null_in_json(
    vae_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Logits thousands of nats apart: exp of them is no number, and JSON has no Infinity.
    loaded = load_vae(vae_folder)
    with torch.no_grad():
        loaded.model.decoder.words.weight.mul_(1e4)
    folder = tmp_path / "hopeless"
    save_vae(
        folder,
        loaded.model,
        encoder_vocabulary=vae_folder / "encoder",
        decoder_vocabulary=vae_folder / "decoder",
    )
    assert math.isinf(reconstruct(load_vae(folder), [ONE])[0].perplexity)
    out = tmp_path / "back.jsonl"
    call = ["generate", "reconstruct", "--model", str(folder), "--text", ONE, "--out", str(out), "--json"]
    assert main(call) == 0
    for text in (capsys.readouterr().out, out.read_text(encoding="utf-8")):
        assert "Infinity" not in text
    assert json.loads(out.read_text(encoding="utf-8"))["perplexity"] is None


def test_what_was_set_aside_is_that_of_the_last_call(vae_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "back.jsonl"
    call = ["generate", "reconstruct", "--model", str(vae_folder), "--out", str(out), "--text", ONE]
    aside = tmp_path / "back.jsonl.rejects.jsonl"
    for _ in range(2):
        assert main([*call, "--text", ""]) == 3
        assert len(aside.read_text(encoding="utf-8").splitlines()) == 1
    assert main(call) == 0
    assert not aside.exists()


def test_no_sentence_is_longer_than_those_of_the_training(vae: LoadedVae) -> None:
    # The folder says 20 tokens, of which one is the beginning; the decoder has 40 positions.
    written = write(vae, torch.randn((30, 8), generator=torch.Generator().manual_seed(0)) * 5)
    assert max(len(item.pieces) for item in written) == 19
    assert any(not item.ended for item in written)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("reconstruct",), "no sentence was given"),
        (("interpolate", "--text", ONE), "takes sentences in pairs; there are 1"),
        (("analogy", "--text", ONE, OTHER), "takes three sentences, not 2"),
        (("reconstruct", "--file", "nowhere.txt"), "nowhere.txt does not exist"),
        (("reconstruct", "--text", "tumor \udcff"), "is not UTF-8"),
        (("analogy", "--text", ONE, OTHER, "tumor \udcff"), "is not UTF-8"),
    ],
)
def test_wrong_calls_are_explained(
    vae_folder: Path, arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["generate", arguments[0], "--model", str(vae_folder), *arguments[1:]])
    assert code == 2
    assert says in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    vae_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    out = tmp_path / "paths.jsonl"
    call = ["generate", "interpolate", "--model", str(vae_folder), "--text", ONE, OTHER]
    assert main([*call, "--out", str(out), "--html", str(tmp_path / "file" / "page.html")]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_a_device_that_is_not_there_is_named(vae_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "sample", "--model", str(vae_folder), "--device", "cuda"]) == 2
    assert "no CUDA device" in capsys.readouterr().err


def test_another_model_is_refused_by_its_kind(vae_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "sample", "--model", str(vae_folder / "encoder")]) == 2
    assert "is a bert model, not a latent-variable model" in capsys.readouterr().err


def test_a_run_is_refused_with_how_to_export_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(tmp_path / "config.json", tiny_recipe())
    assert main(["generate", "sample", "--model", str(tmp_path)]) == 2
    assert f"is a run; biosmith export {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["x", 0, None])
def test_a_latent_size_that_is_no_number_is_named(vae_folder: Path, tmp_path: Path, size: object) -> None:
    folder = tmp_path / "vae"
    shutil.copytree(vae_folder, folder)
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    write_json(folder / "config.json", raw | {"latent_size": size})
    with pytest.raises(BadInput, match="latent_size has to be a whole number above 0"):
        load_vae(folder)


def test_weights_that_are_no_numbers_are_refused_rather_than_written_from(
    vae_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "vae"
    shutil.copytree(vae_folder, folder)
    latent = load_file(folder / "latent.safetensors")
    latent["to_latent.weight"][0, 0] = torch.nan
    save_file(latent, folder / "latent.safetensors")
    with pytest.raises(BadInput, match=r"NaN or infinite\) in to_latent.weight"):
        load_vae(folder)


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 2 steps"):
        between(torch.ones(2), torch.ones(2), 1)


@pytest.mark.parametrize(
    ("file", "changes", "words"),
    [
        ("config.json", {"memory": "false"}, "memory is not a way of injection"),
        ("config.json", {"embedding": None}, "embedding is not a way of injection"),
        ("decoder/config.json", {"eos_token_id": 2_000}, "eos_token_id is none of the 25 pieces"),
        ("decoder/config.json", {"bos_token_id": -1}, "bos_token_id is none of the 25 pieces"),
        ("decoder/config.json", {"n_embd": {}}, "is not a usable GPT-2 configuration"),
        ("decoder/config.json", {"activation_function": []}, "is not a usable GPT-2 configuration"),
        ("decoder/config.json", None, "is not a JSON object"),
    ],
)
def test_a_part_whose_settings_make_no_model_is_refused_by_name(
    file: str, changes: dict[str, object] | None, words: str, vae_folder: Path, tmp_path: Path
) -> None:
    """Any of these would write other sentences, or stop in the middle of one."""
    folder = tmp_path / "vae"
    shutil.copytree(vae_folder, folder)
    raw = json.loads((folder / file).read_text(encoding="utf-8"))
    write_json(folder / file, [] if changes is None else raw | changes)
    with pytest.raises(BadInput, match=words):
        load_vae(folder)


def test_settings_that_transformers_refuses_are_an_error_of_the_tokenizer(
    vae_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "vae"
    shutil.copytree(vae_folder, folder)
    raw = json.loads((folder / "decoder/config.json").read_text(encoding="utf-8"))
    write_json(folder / "decoder/config.json", raw | {"use_cache": "yes"})
    with pytest.raises(UsageError, match="holds no tokenizer that can be used"):
        load_vae(folder)
