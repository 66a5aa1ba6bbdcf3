"""A new vocabulary begins from the old one: shared pieces copied, others at the mean of their old pieces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers

from biosmith.artefact import Manifest, load_manifest
from biosmith.models import PretrainingModel, load_pretraining_model, save_model
from biosmith.models.megatron import MegatronConfig
from biosmith.pretraining.embedding_transfer import Surface, plan_transfer, surfaces, take_over, transferred
from biosmith.pretraining.run import pretrain
from biosmith.tokens.store import write_store
from biosmith.tokens.vocabulary import Vocabulary, load_vocabulary
from pretraining.test_init import RECIPE
from pretraining.test_run import INLINE

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
OLD = [*SPECIAL, "cell", "gene", "##s", "##ne", "ge", "p", "##53", "53", "##p"]
NEW = ["[MASK]", "[CLS]", "[PAD]", "[UNK]", "[SEP]", "gene", "genes", "##53", "##nes", "p53", "zzz", "cell"]


def word_pieces(folder: Path, pieces: list[str], *, lower: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    settings = {"do_lower_case": lower, "tokenizer_class": "BertTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


@pytest.fixture
def old(tmp_path: Path) -> Vocabulary:
    return load_vocabulary(word_pieces(tmp_path / "old", OLD))


def test_shared_pieces_are_copied_and_new_ones_cut_by_the_old_vocabulary(
    old: Vocabulary, tmp_path: Path
) -> None:
    transfer = plan_transfer(old, load_vocabulary(word_pieces(tmp_path / "new", NEW)))
    found = {piece: [OLD[i] for i in source] for piece, source in zip(NEW, transfer.sources, strict=True)}
    assert found == {
        **{special: [special] for special in SPECIAL},  # by their role, wherever they stand
        "gene": ["gene"],
        "cell": ["cell"],
        "##53": ["##53"],  # inside a word, which "53" is not
        "genes": ["gene", "##s"],
        "p53": ["p", "##53"],
        "##nes": ["##ne", "##s"],
        "zzz": [],
    }
    assert (transfer.copied, transfer.averaged, transfer.fresh) == (8, 3, 1)


def test_a_piece_inside_a_word_prefers_the_old_pieces_inside_words(tmp_path: Path) -> None:
    pieces = [*SPECIAL, "53", "##53", "##p"]
    old = load_vocabulary(word_pieces(tmp_path / "old", pieces))
    transfer = plan_transfer(old, load_vocabulary(word_pieces(tmp_path / "new", [*SPECIAL, "##53p", "53p"])))
    assert [[pieces[i] for i in source] for source in transfer.sources[5:]] == [
        ["##53", "##p"],
        ["53", "##p"],
    ]


def test_case_that_the_old_vocabulary_drops_is_dropped(tmp_path: Path) -> None:
    old = load_vocabulary(word_pieces(tmp_path / "old", OLD, lower=True))
    new = load_vocabulary(word_pieces(tmp_path / "new", [*SPECIAL, "GENE", "P53"]))
    assert [[OLD[i] for i in source] for source in plan_transfer(old, new).sources[5:]] == [
        ["gene"],
        ["p", "##53"],
    ]


def test_other_kinds_of_vocabularies_share_pieces_by_text_and_place_in_the_word(
    old: Vocabulary, tmp_path: Path
) -> None:
    scores = [("[PAD]", 0.0), ("[UNK]", 0.0), ("[CLS]", 0.0), ("[SEP]", 0.0), ("[MASK]", 0.0)]
    unigram = Tokenizer(models.Unigram([*scores, ("▁cell", -1.0), ("53", -2.0), ("▁genes", -2.0)], unk_id=1))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    (tmp_path / "unigram").mkdir()
    unigram.save(str(tmp_path / "unigram" / "tokenizer.json"))
    new = load_vocabulary(tmp_path / "unigram")
    assert surfaces(new)[5:] == [Surface("cell", True), Surface("53", False), Surface("genes", True)]
    sources = plan_transfer(old, new).sources[5:]
    assert [[OLD[i] for i in source] for source in sources] == [["cell"], ["##53"], ["gene", "##s"]]
    bytes_too = Tokenizer(models.BPE({"[PAD]": 0, "Ġcell": 1, "s": 2, "Î": 3}, []))
    (tmp_path / "bytes").mkdir()
    bytes_too.save(str(tmp_path / "bytes" / "tokenizer.json"))
    # A space before it begins a word; half a letter is no text.
    found = surfaces(load_vocabulary(tmp_path / "bytes"))
    assert found[1:] == [Surface("cell", True), Surface("s", False), None]


def test_rows_become_means_and_the_others_stay() -> None:
    old, fresh = torch.arange(8.0).view(4, 2), torch.full((4, 2), -1.0)
    found = transferred(old, fresh, [(3,), (0, 1), ()])
    assert found.tolist() == [[6.0, 7.0], [1.0, 2.0], [-1.0, -1.0], [-1.0, -1.0]]
    assert transferred(torch.arange(4.0), torch.zeros(3), [(1, 2), (), (3,)]).tolist() == [1.5, 0.0, 3.0]


def test_the_same_vocabulary_with_other_padding_keeps_every_piece(tmp_path: Path) -> None:
    config = MegatronConfig(
        vocabulary_size=100, layers=1, width=8, heads=2, feed_forward=8, vocabulary_multiple=1
    )
    loaded, model = PretrainingModel(config), PretrainingModel(replace(config, vocabulary_multiple=64))
    assert take_over(model, loaded.state_dict(), tmp_path, None) is None
    words = model.encoder.embeddings.words.weight
    assert len(words) == 128 and torch.equal(words[:100], loaded.encoder.embeddings.words.weight)
    assert torch.equal(
        model.encoder.layers[0].feed_forward.up.weight, loaded.encoder.layers[0].feed_forward.up.weight
    )


def test_a_run_with_tokens_of_another_vocabulary_begins_at_the_transferred_embedding(
    tmp_path: Path,
) -> None:
    words = [f"w{chr(97 + i)}{chr(97 + j)}" for i in range(9) for j in range(10)]
    merged = [a + b for a, b in zip(words[::2], words[1::2], strict=True)]
    inside = [f"##{word}" for word in words]
    start = word_pieces(tmp_path / "vocabulary", [*SPECIAL, *words, *inside])
    torch.manual_seed(0)
    config = MegatronConfig(vocabulary_size=185, layers=1, width=16, heads=2, feed_forward=16, positions=64)
    model = PretrainingModel(config, next_sentence=True)
    init = save_model(tmp_path / "init", model, tokenizer_from=start)
    vocabulary = word_pieces(tmp_path / "new", [*SPECIAL, *merged, *words[:50]])
    mark = load_vocabulary(vocabulary).mark
    Manifest(kind="vocabulary", counts={"size": mark.size, "digest": mark.digest}).save(vocabulary)
    rng = np.random.default_rng(0)
    documents = [(rng.integers(5, 100, 60), np.ones(60, bool), np.arange(60) % 15 == 0) for _ in range(40)]
    store = write_store(tmp_path / "tokens", mark, documents)
    inputs = [{"kind": "vocabulary", "path": str(vocabulary), "digest": mark.digest}]
    replace(load_manifest(store.folder, "tokens"), inputs=inputs).save(store.folder)
    recipe = replace(
        RECIPE,
        optimizer=replace(RECIPE.optimizer, learning_rate=1e-9),
        batch=replace(RECIPE.batch, length=64),
    )
    pretrain(recipe, store.folder, tmp_path / "run", init=init, settings=INLINE)
    found = load_file(tmp_path / "run" / "checkpoints" / "step-2" / "model.safetensors")
    pieces = [*SPECIAL, *words, *inside]
    before = dict(zip(pieces, model.encoder.embeddings.words.weight[: len(pieces)], strict=True))
    after = found["encoder.embeddings.words.weight"]
    assert after.shape == (128, 16)  # 100 pieces, padded
    torch.testing.assert_close(after[50], before[words[0]], rtol=0, atol=1e-6)
    mean = (before[words[0]] + before[f"##{words[1]}"]) / 2
    torch.testing.assert_close(after[5], mean, rtol=0, atol=1e-6)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["model"]["vocabulary_size"] == 100


def test_weights_that_a_hugging_face_folder_pads_are_taken_over(tmp_path: Path) -> None:
    # 104 rows for 100 pieces, as some published models have them.
    pieces = [*SPECIAL, *(f"w{i}" for i in range(95))]
    start = word_pieces(tmp_path / "vocabulary", pieces)
    config = MegatronConfig(
        vocabulary_size=104, layers=1, width=16, heads=2, feed_forward=16, vocabulary_multiple=1
    )
    init = save_model(tmp_path / "init", PretrainingModel(config), tokenizer_from=start)
    rng = np.random.default_rng(0)
    documents = [(rng.integers(5, 100, 60), np.ones(60, bool), np.arange(60) % 15 == 0) for _ in range(40)]
    store = write_store(tmp_path / "tokens", load_vocabulary(start).mark, documents)
    pretrain(RECIPE, store.folder, tmp_path / "run", init=init, settings=INLINE)
    found = load_file(tmp_path / "run" / "checkpoints" / "step-2" / "model.safetensors")
    loaded, _ = load_pretraining_model(init)
    assert found["encoder.embeddings.words.weight"].shape == (100, 16)
    before = loaded.encoder.embeddings.words.weight[:100]
    assert (found["encoder.embeddings.words.weight"] - before).abs().max() < 0.01
