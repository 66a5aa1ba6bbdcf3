"""Words to sequences and scores to spans, beside the plain way of doing it one sentence at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from biosmith.annotate.pieces import PieceCutter
from biosmith.annotate.reading import TooLong, Words, lay_out, read_words
from biosmith.annotate.sequences import Scores, Sequences, padded_batches
from biosmith.annotate.spans import Head
from biosmith.tasks.inputs import InputTransform
from biosmith.tasks.labels import LabelSet, read_spans
from biosmith.tasks.ner import load_tuned
from biosmith.tasks.tagged import sentence_words
from biosmith.tasks.tagging import Tagger
from biosmith.text.document import Document, Passage

WORDS = st.text(min_size=1, max_size=8) | st.sampled_from(["gout", "colitis", "\x00", "\u0301", "x" * 90])


@pytest.fixture(scope="module")
def tagger(tagger_folder: Path) -> Tagger:
    return load_tuned(tagger_folder)


@pytest.fixture(scope="module")
def cutter(tagger_folder: Path) -> PieceCutter:
    return PieceCutter.load(tagger_folder)


def in_sentences(sentences: list[list[str]]) -> Words:
    texts = [word for sentence in sentences for word in sentence]
    begins = np.append(0, np.cumsum([len(s) for s in sentences])).astype(np.int64)
    nowhere = np.zeros(len(texts), np.int64)
    return Words(texts, nowhere, nowhere, begins, np.arange(len(sentences)))


@given(st.lists(WORDS, max_size=20))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_remembered_words_have_the_pieces_that_training_gave_them(
    cutter: PieceCutter, tagger_folder: Path, words: list[str]
) -> None:
    readable = [w.encode("utf-8", "replace").decode() for w in words]
    ids, begins = cutter.cut(readable)
    if readable:
        (expected,) = InputTransform(tagger_folder).cut_words([readable])
        assert ids.tolist() == expected.ids.tolist()
        assert begins.tolist() == [*expected.first.tolist(), len(expected.ids)]
    again, _ = cutter.cut(readable)
    assert again.tolist() == ids.tolist()


def test_a_word_that_the_tokenizer_fails_on_is_not_remembered_as_empty(
    tagger_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutter = PieceCutter.load(tagger_folder)
    encode = cutter._encode

    def fragile(words: list[str]) -> list[object]:
        if "colitis" in words:
            raise RuntimeError("boom")
        return encode(words)

    monkeypatch.setattr(cutter, "_encode", fragile)
    with pytest.raises(RuntimeError):
        cutter.cut(["gout", "colitis"])
    assert cutter.cut(["gout"])[0].tolist() == PieceCutter.load(tagger_folder).cut(["gout"])[0].tolist()
    with pytest.raises(RuntimeError):
        cutter.cut(["colitis"])


@given(st.lists(st.lists(WORDS, max_size=90), max_size=4), st.sampled_from(["window", "truncate"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_sentences_at_once_get_the_labels_that_each_gets_alone(
    tagger: Tagger, cutter: PieceCutter, sentences: list[list[str]], on_long: str
) -> None:
    readable = [[w.encode("utf-8", "replace").decode() for w in s] for s in sentences]
    words = in_sentences(readable)
    reading = lay_out(words, cutter, tagger.max_length, tagger.stride, on_long)  # type: ignore[arg-type]
    # A fixed score for each pick, by its token and its place in its sequence.
    random = np.random.default_rng(0).normal(size=(1000, len(tagger.label_set.labels))).astype(np.float32)

    def engine(examples: list[object]) -> list[Scores]:
        return [random[(e.ids[e.picks] * 7 + e.picks) % 1000] for e in examples]  # type: ignore[attr-defined]

    alone = Tagger(tagger.transform, tagger.label_set, engine, tagger.max_length, tagger.stride)  # type: ignore[arg-type]
    expected = alone.tag([s for s in readable if s], on_long)
    sequences = reading.sequences
    place = (
        sequences.picks - sequences.begins[np.searchsorted(sequences.begins, sequences.picks, "right") - 1]
    )
    scores = random[(sequences.ids[sequences.picks] * 7 + place) % 1000]
    head = Head("t", tagger.label_set, slice(None))
    labels, probabilities = head.label(scores, reading, words)
    assert labels.tolist() == [label for t in expected for label in t.labels.tolist()]
    assert np.allclose(probabilities, np.concatenate([np.zeros(0), *(t.probabilities for t in expected)]))
    assert reading.truncated == sum(t.truncated for t in expected)
    spans = [
        (a, b, head.types[t])
        for a, b, t in zip(*(x.tolist() for x in head.spans(labels, words)), strict=True)
    ]
    begins = [int(b) for b, s in zip(words.begins, readable, strict=False) if s]
    assert spans == [
        (a + begin, b + begin, t)
        for begin, tagged in zip(begins, expected, strict=True)
        for a, b, t in read_spans(alone.tags(tagged))
    ]


@pytest.mark.parametrize("scheme", ["BIO", "IOBES", "IO", "BIOUL"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_spans_are_read_as_conlleval_reads_them_whatever_the_labels(scheme: str, data: st.DataObject) -> None:
    label_set = LabelSet.of_types(["A", "B"], scheme)
    numbers = st.integers(0, len(label_set.labels) - 1)
    sentences = data.draw(st.lists(st.lists(numbers, min_size=1, max_size=8), min_size=1, max_size=4))
    words = in_sentences([["w"] * len(s) for s in sentences])
    head = Head("t", label_set, slice(None))
    first, end, type = head.spans(np.array([x for s in sentences for x in s]), words)
    found = [
        (a, b, head.types[t]) for a, b, t in zip(first.tolist(), end.tolist(), type.tolist(), strict=True)
    ]
    expected = [
        (a + int(begin), b + int(begin), t)
        for begin, s in zip(words.begins, sentences, strict=False)
        for a, b, t in read_spans([label_set.labels[i] for i in s])
    ]
    assert found == expected


def test_windows_overlap_by_the_longest_mention_and_every_word_counts_once(cutter: PieceCutter) -> None:
    words = in_sentences([["gout"], ["in"] * 100, ["of", "gout"]])
    reading = lay_out(words, cutter, max_length=32, stride=10, on_long="window")
    # 30 pieces fit beside two special tokens; each window begins 20 after the one before: 0, 20, 40, 60 and 80.
    assert reading.windows == 1 + 5 + 1
    assert reading.words.tolist() == list(range(103))
    assert reading.truncated == 0
    # The last pick of the first window lies ten words before its edge, where the second one takes over halfway.
    assert np.flatnonzero(np.diff(reading.rows) > 1).size == 4


def test_a_word_longer_than_the_model_is_read_in_part_and_counted(cutter: PieceCutter) -> None:
    reading = lay_out(in_sentences([["x" * 90, "gout"]]), cutter, 32, 10, "window")
    assert reading.clipped == 1
    assert reading.words.tolist() == [0, 1]
    assert reading.sequences.lengths.max() == 32


def test_a_long_sentence_is_refused_where_that_is_asked_for(cutter: PieceCutter) -> None:
    with pytest.raises(TooLong, match="40 pieces does not fit the 30"):
        lay_out(in_sentences([["in"] * 40]), cutter, 32, 10, "error")


@given(st.lists(st.integers(1, 64), max_size=30), st.integers(64, 400))
@settings(max_examples=50, deadline=None)
def test_padded_batches_hold_every_token_and_every_pick_once(lengths: list[int], budget: int) -> None:
    begins = np.append(0, np.cumsum(lengths)).astype(np.int64)
    ids = np.arange(1, begins[-1] + 1, dtype=np.int32)
    picks = np.flatnonzero(ids % 3 == 0)
    found = np.zeros(len(picks), np.int64)
    tokens: list[int] = []
    for batch in padded_batches(Sequences(ids, begins, picks), budget, 64):
        assert batch.ids_BL.size <= max(budget, 64)
        tokens += batch.ids_BL[batch.mask_BL.astype(bool)].tolist()
        found[batch.rows] = batch.ids_BL.reshape(-1)[batch.places]
    assert sorted(tokens) == ids.tolist()
    assert found.tolist() == ids[picks].tolist()


@given(st.lists(st.text(max_size=60), max_size=3), st.booleans())
@settings(max_examples=100, deadline=None)
def test_words_are_where_they_say(texts: list[str], plain: bool) -> None:
    document = Document.build("1", [Passage("p", t) for t in texts])
    words = read_words([document], plain=plain)
    for text, a, b in zip(words.texts, words.starts.tolist(), words.ends.tolist(), strict=True):
        assert 0 <= a < b <= len(document.text)
        if not plain:
            assert document.text[a:b] == text
    if not plain and texts:
        assert [
            list(zip(words.starts[a:b].tolist(), words.ends[a:b].tolist(), strict=True))
            for a, b in zip(words.begins[:-1].tolist(), words.begins[1:].tolist(), strict=True)
        ] == list(sentence_words(document))


@pytest.mark.parametrize("adds_space", [False, True])
def test_words_of_byte_level_vocabularies_are_cut_as_inside_a_sentence(
    adds_space: bool, tmp_path: Path
) -> None:
    # To RoBERTa and ModernBERT "Ġaspirin" is a word and "aspirin" the end of one; most of their tokenizers are saved
    # without add_prefix_space, which words that are given one by one need.
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=adds_space)
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    text = " aspirin for gout , no aspirin in gout"
    tokenizer.train_from_iterator([text] * 3, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    inside = tokenizer.encode(text).tokens
    assert "Ġaspirin" in inside and "aspirin" not in inside
    ids, places = PieceCutter.load(tmp_path).cut(text.split())
    assert [tokenizer.id_to_token(i) for i in ids.tolist()] == inside and len(places) == 9
    (pieces,) = InputTransform(tmp_path).cut_words([text.split()])
    assert pieces.ids.tolist() == ids.tolist() and pieces.first.tolist() == places[:-1].tolist()
