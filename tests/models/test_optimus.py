"""Checkpoints of OPTIMUS and BioVAE, made here in the form of their library, and what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from biosmith.cli import main
from biosmith.errors import BadInput, UsageError
from biosmith.models.optimus import convert_optimus
from biosmith.models.vae_folder import load_vae

WORDS = ("tumor", "kinase", "binds", "the", ".")


def write_checkpoint(
    folder: Path, *, latent: int = 4, projection: int | None = None
) -> dict[str, torch.Tensor]:
    """Two folders as `save_checkpoint` of the original writes them: old names, masks saved as buffers, a tied output layer
    saved twice, a configuration of 2019."""
    torch.manual_seed(0)
    bert = BertModel(
        BertConfig(
            vocab_size=10,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=20,
        )
    )
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=24, n_layer=3, n_head=4, n_positions=20))
    kept = {
        "linear.weight": torch.randn(2 * latent, 16),
        "transformer.linear.weight": torch.randn(projection or 3 * 24, latent),
        "transformer.linear_emb.weight": torch.randn(24, latent),
    }
    encoder, decoder = folder / "checkpoint-encoder-10", folder / "checkpoint-decoder-10"
    encoder.mkdir(parents=True)
    decoder.mkdir()
    torch.save(bert.state_dict() | {"linear.weight": kept["linear.weight"]}, encoder / "pytorch_model.bin")
    state = dict(gpt2.state_dict())
    state |= {f"transformer.h.{i}.attn.bias": torch.ones(1, 1, 20, 20).tril() for i in range(3)}
    state |= {name: kept[name] for name in kept if name.startswith("transformer")}
    torch.save(state, decoder / "pytorch_model.bin")
    old = {
        "vocab_size": 10,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 20,
    }
    (encoder / "config.json").write_text(
        json.dumps({**old, "finetuning_task": None, "num_labels": 2}), encoding="utf-8"
    )
    # The size before the three tokens were added, as the old library left it.
    shape = {
        "vocab_size": 6,
        "n_embd": 24,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 20,
        "n_ctx": 20,
        "num_labels": 1,
    }
    (decoder / "config.json").write_text(json.dumps({**shape, "latent_size": latent}), encoding="utf-8")
    for path, special in (
        (encoder, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
        (decoder, ["<|endoftext|>"]),
    ):
        pieces = [*special, *WORDS] if path is encoder else [*WORDS, *special]
        vocabulary = {piece: n for n, piece in enumerate(pieces)}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=special[min(1, len(special) - 1)]))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        roles = (
            {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
            if path is encoder
            else {"bos_token": special[0], "eos_token": special[0], "unk_token": special[0]}
        )
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles).save_pretrained(str(path))
    torch.save({"any": "arguments"}, encoder / "training_encoder_args.bin")  # left alone
    return kept


def test_a_checkpoint_keeps_every_weight_and_its_tokens(tmp_path: Path) -> None:
    kept = write_checkpoint(tmp_path / "source")
    vae = load_vae(convert_optimus(tmp_path / "source", tmp_path / "out"))
    state = vae.model.state_dict()
    for theirs, ours in (
        ("linear.weight", "to_latent.weight"),
        ("transformer.linear.weight", "to_memory.weight"),
        ("transformer.linear_emb.weight", "to_embedding.weight"),
    ):
        torch.testing.assert_close(state[ours], kept[theirs])
    config = vae.model.config
    assert (config.latent_size, config.memory, config.embedding) == (4, True, True)
    assert (config.decoder.pad_id, config.decoder.begin_id, config.decoder.end_id) == (6, 7, 8)
    assert vae.writer.convert_ids_to_tokens([6, 7, 8]) == ["<PAD>", "<BOS>", "<EOS>"]
    assert vae.text([0, 2, 1, 8]) == "tumor binds kinase"


def test_a_converted_checkpoint_encodes_as_the_original_does(tmp_path: Path) -> None:
    # Pooled output of BERT through the linear layer, halves mean and log-variance (`modules/vae.py`, connect).
    kept = write_checkpoint(tmp_path / "source")
    vae = load_vae(convert_optimus(tmp_path / "source", tmp_path / "out"))
    torch.manual_seed(0)
    bert = BertModel.from_pretrained(str(tmp_path / "out" / "encoder")).eval()
    ids = torch.tensor([[2, 5, 7, 3]])
    with torch.no_grad():
        mean, log_variance = (bert(ids).pooler_output @ kept["linear.weight"].t()).chunk(2, -1)
        found = vae.model.encode(ids)
    torch.testing.assert_close(found.mean_NZ, mean, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.log_variance_NZ, log_variance, atol=1e-5, rtol=1e-4)


def test_shapes_that_do_not_fit_are_named(tmp_path: Path) -> None:
    # An issue of the original is a mismatch of shapes deep inside a forward pass.
    write_checkpoint(tmp_path / "source", projection=48)
    with pytest.raises(
        BadInput, match=r"to_memory.weight has shape \(48, 4\); .* 3 layers, 24 wide, ask for \(72, 4\)"
    ):
        convert_optimus(tmp_path / "source", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_without_its_decoder_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "source")
    (tmp_path / "source" / "checkpoint-decoder-10" / "config.json").unlink()
    with pytest.raises(UsageError, match="it needs one folder checkpoint-encoder-STEP and one"):
        convert_optimus(tmp_path / "source", tmp_path / "out")


def test_convert_recognises_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(tmp_path / "source")
    assert main(["convert", str(tmp_path / "source"), "--out", str(tmp_path / "out")]) == 0
    assert "a latent-variable model, latent size 4" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["checkpoint-encoder-10", "checkpoint-decoder-10"])
def test_a_configuration_that_is_no_object_is_refused_by_name(part: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "source")
    (tmp_path / "source" / part / "config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(BadInput, match=rf"{part}/config\.json: is not a JSON object"):
        convert_optimus(tmp_path / "source", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("transformer.wte.weight", (), "lacks 'transformer.wte.weight'"),
        ("transformer.h.0.attn.c_attn.weight", (3, 4, 5), r"has shape \(3, 4, 5\)"),
    ],
)
def test_a_tensor_of_other_dimensions_is_refused_by_name(
    name: str, shape: tuple[int, ...], words: str, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path / "source")
    file = tmp_path / "source" / "checkpoint-decoder-10" / "pytorch_model.bin"
    torch.save(torch.load(file, weights_only=True) | {name: torch.zeros(shape)}, file)
    with pytest.raises(BadInput, match=words):
        convert_optimus(tmp_path / "source", tmp_path / "out")
