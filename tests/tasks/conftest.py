"""A tiny BERT, and sentences that a tagger can learn in seconds."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
import torch

DISEASES = (
    "colitis",
    "breast cancer",
    "von Hippel - Lindau disease",
    "anemia",
    "gout",
    "ataxia telangiectasia",
)
DRUGS = ("aspirin", "sodium chloride", "heparin", "ibuprofen")
FRAMES = (
    "Patients with {a} were given {b} .",
    "{b} does not cause {a} in mice .",
    "We studied {a} , {c} and {b} .",
    "No effect of {b} was seen .",
    "{a} is rare .",
)


def write_tiny_model(folder: Path, width: int = 32, positions: int = 64) -> Path:
    """Two layers, random weights, an uncased vocabulary of single letters and a few words."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = sorted({w.lower() for text in (*DISEASES, *DRUGS, *FRAMES) for w in text.split() if w.isalpha()})
    letters = list(string.ascii_lowercase + string.digits + string.punctuation)
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*specials, *letters, *("##" + c for c in letters), *(w for w in words if len(w) > 1)]
    ids = {piece: i for i, piece in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    named = dict(zip(("pad", "unk", "cls", "sep", "mask"), specials, strict=True))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{k}_token": v for k, v in named.items()},
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(ids),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * width,
        max_position_embeddings=positions,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def write_sentences(path: Path, start: int, count: int) -> Path:
    """A CoNLL file of `count` sentences, every one with its diseases and drugs tagged."""
    lines: list[str] = []
    for i in range(start, start + count):
        chosen = {
            "{a}": (DISEASES[i % len(DISEASES)], "Disease"),
            "{b}": (DRUGS[(i // 2) % len(DRUGS)], "Chemical"),
            "{c}": (DISEASES[(i + 1) % len(DISEASES)], "Disease"),
        }
        for word in FRAMES[i % len(FRAMES)].split():
            if word not in chosen:
                lines.append(f"{word}\tO")
                continue
            text, type = chosen[word]
            for j, part in enumerate(text.split()):
                lines.append(f"{part}\t{'I' if j else 'B'}-{type}")
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers, 32 wide, that reads 64 pieces."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tagging_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset's folder: 20 sentences to train on, 8 for each other split."""
    folder = tmp_path_factory.mktemp("data") / "tagging"
    folder.mkdir()
    for name, start, count in (("train", 0, 20), ("devel", 20, 8), ("test", 28, 8)):
        write_sentences(folder / f"{name}.tsv", start, count)
    return folder


@pytest.fixture(scope="session")
def tuned(tiny_model: Path, tagging_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger that has learnt the sentences of `tagging_data`."""
    from biosmith.tasks.ner import finetune
    from biosmith.tasks.settings import TaggingSettings

    out = tmp_path_factory.mktemp("tuned") / "ner"
    settings = TaggingSettings(learning_rate=1e-2, batch_size=4, epochs=25, keep="last")
    finetune(tiny_model, tagging_data, out, settings)
    return out
