"""Small sentence stores and recipes that tests of latent-variable models share."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from biosmith.models.bert import BertConfig
from biosmith.models.gpt2 import Gpt2Config
from biosmith.models.vae import VaeConfig
from biosmith.pretraining.config import AdamW
from biosmith.pretraining.elbo_config import EvidenceLowerBound, SentenceBatch, SentenceEvaluation, VaeRecipe
from biosmith.pretraining.sentences import SentenceRules, build_sentences
from biosmith.text.document import Document, Passage
from biosmith.text.formats.parquet import ParquetWriter

NOUNS = ("tumor", "kinase", "receptor", "patient", "mutation", "protein", "cell", "gene", "drug", "mouse")
VERBS = ("inhibits", "activates", "binds", "reduces", "induces", "regulates")


def write_tokenizer(folder: Path, *, gpt2: bool = False, more: tuple[str, ...] = ()) -> Path:
    """A word tokenizer in the form of BERT's ([CLS], [SEP]) or of GPT-2's (one end token for every role)."""
    words = [*NOUNS, *VERBS, "the", "in", ".", "a", *more]
    special = ["<|endoftext|>"] if gpt2 else ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *words] if not gpt2 else [*words, *special]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=special[0] if gpt2 else "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    roles = (
        {"bos_token": special[0], "eos_token": special[0], "unk_token": special[0]}
        if gpt2
        else {
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        }
    )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles).save_pretrained(str(folder))
    return folder


def make_text(rng: np.random.Generator, sentences: int) -> str:
    """Sentences of 5 to 9 words that are easily learnt."""
    made = []
    for _ in range(sentences):
        one, other, third = rng.choice(NOUNS, 3)
        tail = rng.choice(["", f" in the {third}", f" in a {third} in the {one}"])
        made.append(f"The {one} {rng.choice(VERBS)} the {other}{tail}.")
    return " ".join(made)


def write_corpus(folder: Path, documents: int = 60, sentences: int = 6, extra: tuple[str, ...] = ()) -> Path:
    """A corpus folder of made sentences; `extra` are the texts of further documents."""
    from biosmith.artefact import Manifest, describe_files

    rng = np.random.default_rng(11)
    folder.mkdir(parents=True)
    with ParquetWriter(folder / "part-00000.parquet") as writer:
        for number in range(documents):
            writer.write(Document.build(str(number), [Passage("abstract", make_text(rng, sentences), 0)]))
        for number, text in enumerate(extra):
            writer.write(Document.build(f"x{number}", [Passage("abstract", text, 0)]))
    Manifest(kind="corpus", files=describe_files(folder), counts={"documents": documents}).save(folder)
    return folder


def make_store(folder: Path, *, gpt2: bool = True, documents: int = 60, extra: tuple[str, ...] = ()) -> Path:
    """A sentence store in folder/sentences, its corpus and vocabularies beside it."""
    corpus = write_corpus(folder / "corpus", documents, extra=extra)
    reading = write_tokenizer(folder / "reading", more=("The",))
    writing = write_tokenizer(folder / "writing", gpt2=gpt2, more=("The",))
    rules = SentenceRules(most_words=30, most_pieces=30, least_words=3)
    build_sentences(corpus, reading, writing, folder / "sentences", rules=rules)
    return folder / "sentences"


def tiny_recipe(**changes: object) -> VaeRecipe:
    """Two layers on either side; seconds on a CPU."""
    encoder = BertConfig(vocabulary_size=30, layers=2, width=32, heads=2, feed_forward=64, positions=40)
    decoder = Gpt2Config(
        vocabulary_size=30, layers=2, width=32, heads=2, positions=40, pad_id=0, begin_id=1, end_id=2
    )
    recipe = VaeRecipe(
        name="tiny",
        paper="none",
        model=VaeConfig(latent_size=8, encoder=encoder, decoder=decoder),
        objective=EvidenceLowerBound(beta=0.1, cycles=2, free_bits=0.1),
        optimizer=AdamW(learning_rate=3e-3, epsilon=1e-8, weight_decay=0.0, bias_correction=True),
        batch=SentenceBatch(sentences=32, length=32, micro_batch_tokens=160),
        evaluation=SentenceEvaluation(every=0, documents=4, sentences=20, final_samples=3),
        steps=12,
        log_every=4,
        checkpoint_every=4,
        keep_checkpoints=0,
    )
    return dataclasses.replace(recipe, **changes)  # type: ignore[arg-type]
