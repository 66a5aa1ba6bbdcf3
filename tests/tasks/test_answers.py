"""Answers that are spans: windows, n-best lists, no answer, and two stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from biosmith.artefact import Manifest
from biosmith.errors import BadInput, UsageError
from biosmith.tasks import fitting
from biosmith.tasks.answers import (
    Candidate,
    Window,
    best_answers,
    make_windows,
    piece_windows,
    spans_of_window,
)
from biosmith.tasks.inputs import Example, InputTransform
from biosmith.tasks.instances import Answer, Question
from biosmith.tasks.metrics.answers import score_squad
from biosmith.tasks.settings import AnswerSettings

DRUGS = ("aspirin", "heparin", "ibuprofen")
QUICK: dict[str, Any] = {
    "learning_rate": 1e-2,
    "batch_size": 4,
    "epochs": 14,
    "max_length": 32,
    "stride": 4,
    "keep": "last",
    "device": "cpu",
}


def questions(count: int, *, some_unanswerable: bool = False) -> list[Question]:
    """Which drug was given? It stands before "were given"; without one there is no answer."""
    made = []
    for i in range(count):
        drug = DRUGS[i % 3]
        context = f"patients with gout were given {drug} in mice"
        answers = (Answer(drug, context.index(drug)),)
        if some_unanswerable and i % 2:
            context, answers = "no effect was seen", ()
        made.append(Question(str(i), "we studied", context, answers))
    return made


@pytest.fixture(scope="module")
def transform(tiny_model: Path) -> InputTransform:
    return InputTransform(tiny_model)


def test_windows_share_the_stride_and_hold_every_piece() -> None:
    assert piece_windows(10, 4, 1) == [(0, 4), (3, 7), (6, 10)]
    assert piece_windows(0, 4, 1) == [(0, 0)]
    # A stride as long as the window would never get on: half a window is shared at most.
    assert piece_windows(9, 4, 4) == [(0, 4), (2, 6), (4, 8), (6, 9)]


def test_the_answer_is_the_target_of_the_windows_that_hold_it_whole(transform: InputTransform) -> None:
    context = "gout " * 20 + "breast cancer " + "gout " * 20
    answer = Answer("breast cancer", context.index("breast"))
    settings = AnswerSettings(max_length=20, stride=4)
    made = make_windows([Question("1", "rare", context, (answer,))], transform, 20, settings, training=True)
    holding = 0
    for window in made.windows:
        example = window.example
        assert len(example.ids) <= 20 and example.picks[0] == 0
        assert len(example.target) == len(example.picks) == len(example.words) + 1
        pieces = {int(w) for w in example.words}
        if {20, 21} <= pieces:  # the two words are pieces 20 and 21
            holding += 1
            assert example.target[1 + 20 - example.words[0]] == 1
            assert example.target[1 + 21 - example.words[0]] == 2
            assert example.target[0] == 0
        else:
            assert example.target[0] == 3 and not example.target[1:].any()
    assert holding >= 1
    # [CLS] question [SEP] context [SEP]: segments 0 and 1.
    assert made.windows[0].example.types is not None
    assert made.windows[0].example.types.tolist() == [0, 0, 0] + [1] * 17


def test_an_answer_that_does_not_stand_where_it_is_said_to_is_named(transform: InputTransform) -> None:
    wrong = Question("7", "rare", "gout is rare", (Answer("gout", 1),), file="train.json")
    with pytest.raises(BadInput, match=r"train\.json, question 7: the answer is 'gout'.*'out '"):
        make_windows([wrong], transform, 32, AnswerSettings(), training=True)


def test_white_space_in_front_of_an_answer_that_its_offset_does_not_count_is_no_mistake(
    transform: InputTransform,
) -> None:
    question = Question("1", "rare", "gout is rare", (Answer(" rare", 8),))
    made = make_windows([question], transform, 32, AnswerSettings(), training=True)
    assert made.windows[0].example.target.tolist() == [0, 0, 0, 3]


def test_long_questions_lose_their_end_and_are_counted(transform: InputTransform) -> None:
    question = Question("1", "gout " * 40, "rare")
    made = make_windows([question], transform, 32, AnswerSettings(), training=False)
    assert made.truncated == 1
    assert all(len(w.example.ids) <= 32 for w in made.windows)
    with pytest.raises(UsageError, match="leaves no room"):
        make_windows([question], transform, 10, AnswerSettings(), training=False)


def test_the_best_spans_of_a_window_are_pairs_of_its_best_starts_and_ends() -> None:
    # Pieces a b c; starts 3 0 2, ends 0 1 4. a-c scores 7, c 6, a-b 4, a 3; an end before its start is none.
    context = "a b c"
    places = np.array([0, 2, 4], np.int32)
    example = Example(
        np.zeros(6, np.int32), np.arange(4, dtype=np.int32), np.zeros(0), 0, np.arange(3, dtype=np.int32)
    )
    window = Window(example, 0, places, places + 1)
    scores = np.array([[0, 0], [3, 0], [0, 1], [2, 4]], np.float32)
    settings = AnswerSettings(candidates=3, answer_length=3)
    best = best_answers(spans_of_window(window, scores, context, settings), 4)
    assert [(c.text, c.score) for c in best] == [("a b c", 7.0), ("c", 6.0), ("b c", 4.0), ("a b", 4.0)] or [
        (c.text, c.score) for c in best
    ] == [("a b c", 7.0), ("c", 6.0), ("a b", 4.0), ("b c", 4.0)]
    short = AnswerSettings(candidates=3, answer_length=1)
    assert [c.text for c in best_answers(spans_of_window(window, scores, context, short), 3)] == [
        "c",
        "a",
        "b",
    ]


def test_the_same_answer_counts_once_whatever_its_case() -> None:
    spans = [
        Candidate("Aspirin", 0, 7, 1.0),
        Candidate("aspirin", 20, 27, 3.0),
        Candidate("heparin", 40, 47, 2.0),
    ]
    assert [c.text for c in best_answers(spans, 5)] == ["aspirin", "heparin"]


@pytest.fixture(scope="module")
def squad(tiny_model: Path) -> Any:
    return fitting.fit("squad", tiny_model, questions(24), None, AnswerSettings(**QUICK))


def test_answers_are_learnt_saved_and_loaded(squad: Any, tmp_path: Path) -> None:
    gold = questions(12)
    predictions = squad.predict(gold)
    # Chance: one span of eight pieces.
    assert score_squad([[a.text for a in q.answers] for q in gold], predictions.values).exact_match > 0.8
    squad.save(tmp_path / "out", Manifest("tuned"))
    assert fitting.load_tuned(tmp_path / "out", "cpu").predict(gold) == predictions


def test_transformers_loads_the_folder_with_equal_logits(squad: Any, tmp_path: Path) -> None:
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    squad.save(tmp_path / "out", Manifest("tuned"))
    theirs = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "out").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    gold = questions(3)
    made = make_windows(gold, squad.transform, 32, squad.settings, training=False)
    for window, scores in zip(made.windows, squad.engine([w.example for w in made.windows]), strict=True):
        question = gold[window.question]
        with torch.inference_mode():
            given = theirs(**tokenizer(question.text, question.context, return_tensors="pt"))
        expected = torch.stack([given.start_logits[0], given.end_logits[0]], -1)[window.example.picks]
        torch.testing.assert_close(torch.from_numpy(scores), expected, atol=1e-4, rtol=0)


def test_an_answer_far_into_a_long_context_is_found_in_its_window(squad: Any) -> None:
    filler = "no effect was seen " * 10
    question = Question("1", "we studied", f"{filler}patients with gout were given heparin in mice")
    assert squad.predict([question]) == fitting.Predictions(["heparin"], 0)


def test_questions_without_an_answer_get_none(tiny_model: Path) -> None:
    train = questions(24, some_unanswerable=True)
    tuned = fitting.fit("squad", tiny_model, train, None, AnswerSettings(**QUICK))
    values = tuned.predict(train).values
    assert sum((v == "") == (not q.answers) for v, q in zip(values, train, strict=True)) > 20


def test_a_tuned_model_is_tuned_on_for_factoid_lists(squad: Any, tmp_path: Path) -> None:
    squad.save(tmp_path / "squad", Manifest("tuned"))
    settings = AnswerSettings(**{**QUICK, "epochs": 1, "learning_rate": 1e-5, "answers": 3})
    factoid = fitting.fit("factoid", tmp_path / "squad", questions(4), None, settings)
    # Hardly trained on, it still knows what the first stage has learnt.
    gold = questions(3)
    lists = factoid.predict(gold).values
    assert [answers[0] for answers in lists] == [q.answers[0].text for q in gold]
    assert all(len(answers) == 3 for answers in lists)


def test_the_contexts_of_one_question_are_answered_together(squad: Any, tmp_path: Path) -> None:
    squad.save(tmp_path / "squad", Manifest("tuned"))
    settings = AnswerSettings(**{**QUICK, "epochs": 1, "learning_rate": 1e-5})
    factoid = fitting.fit("factoid", tmp_path / "squad", questions(4), None, settings)
    one, two = (Question(q.id, q.text, q.context, group="g") for q in questions(2))
    (answers,) = factoid.predict([one, two]).values
    assert {"aspirin", "heparin"} <= set(answers)


def test_the_dev_score_of_factoid_lists_counts_a_group_once(tiny_model: Path) -> None:
    from biosmith.tasks.fit_answers import _plain_score

    # One question over two contexts, its answer second: 1/2. Counted by context it would weigh double.
    dev = [Question("1", "q", "c", (Answer("aspirin", 0),), group="g"), Question("2", "q", "c", group="g")]
    dev.append(Question("3", "q", "c", gold=("gout",)))
    predicted = [["x", "aspirin"], ["gout"]]
    assert _plain_score("factoid", dev, predicted) == pytest.approx((0.5 + 1.0) / 2)


def test_two_runs_of_one_seed_give_the_same_answers(tiny_model: Path) -> None:
    settings = AnswerSettings(**{**QUICK, "epochs": 2})
    runs = [fitting.fit("factoid", tiny_model, questions(8), None, settings) for _ in range(2)]
    assert runs[0].predict(questions(8)) == runs[1].predict(questions(8))
    assert runs[0].history is not None and runs[1].history is not None
    assert runs[0].history.lines[-1]["loss"] == runs[1].history.lines[-1]["loss"]
