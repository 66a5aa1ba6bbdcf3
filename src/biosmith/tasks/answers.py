"""Questions over long texts: windows that fit the model, and the best spans of all windows together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biosmith.errors import BadInput, UsageError
from biosmith.tasks.answer_network import END, START
from biosmith.tasks.inputs import Example, Ids, InputTransform, TextPieces
from biosmith.tasks.instances import Question
from biosmith.tasks.settings import AnswerSettings
from biosmith.tasks.texts import piece_range

LEAST_CONTEXT = 8  # pieces of context that a window has at least, however long the question is


@dataclass(frozen=True, slots=True)
class Window:
    """A question and as much of its context as fits.

    Attributes:
        example: its picks are [CLS] and the pieces of the context; `words` are those pieces' places in the text.
        question: which question it is of.
        starts, ends: code points of the context's pieces.
    """

    example: Example
    question: int
    starts: Ids
    ends: Ids


@dataclass(frozen=True)
class Windows:
    """All windows of some questions, and how many questions had to lose their end."""

    windows: list[Window]
    truncated: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that may be the answer: its text, place in the context, and score (start and end together)."""

    text: str
    start: int
    end: int
    score: float


def make_windows(
    questions: Sequence[Question],
    transform: InputTransform,
    max_length: int,
    settings: AnswerSettings,
    *,
    training: bool,
) -> Windows:
    """Windows over the contexts, in order; in training with the answer as target.

    A window that does not hold the whole answer has [CLS] as start and end, as in BERT's own code.

    Raises:
        BadInput: an answer does not stand where it is said to (training only).
        UsageError: so few pieces fit that no question does.
    """
    frame = transform.pair_frame
    most_question = max_length - frame.size - LEAST_CONTEXT
    if most_question < 1:
        raise UsageError(f"max_length {max_length} leaves no room for a question and its context")
    cut_questions = transform.cut_texts([q.text for q in questions])
    # Many questions are asked of one text.
    unique = list(dict.fromkeys(q.context for q in questions))
    cut_contexts = dict(zip(unique, transform.cut_texts(unique), strict=True))
    windows: list[Window] = []
    truncated = 0
    for number, question in enumerate(questions):
        asked, context = cut_questions[number].ids, cut_contexts[question.context]
        truncated += len(asked) > most_question
        asked = asked[:most_question]
        answer = _answer_pieces(question, context) if training else None
        room = max_length - frame.size - len(asked)
        for start, end in piece_windows(len(context.ids), room, settings.stride):
            ids, types = frame.join(asked, context.ids[start:end])
            first = len(frame.before) + len(asked) + len(frame.between)
            picks = np.concatenate([[0], first + np.arange(end - start)]).astype(np.int32)
            target = _target(answer, start, end) if training else np.zeros(0, np.int64)
            places = np.arange(start, end, dtype=np.int32)
            windows.append(
                Window(
                    Example(ids, picks, target, number, places, types),
                    number,
                    context.starts[start:end],
                    context.ends[start:end],
                )
            )
    return Windows(windows, truncated)


def piece_windows(pieces: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Runs of at most `room` pieces, each sharing `stride` with the one before it; at least one run.

    >>> piece_windows(10, 4, 1)
    [(0, 4), (3, 7), (6, 10)]
    """
    step = max(1, room - min(stride, room // 2))
    windows = [(0, min(room, pieces))]
    while windows[-1][1] < pieces:
        start = windows[-1][0] + step
        windows.append((start, min(start + room, pieces)))
    return windows


def _answer_pieces(question: Question, context: TextPieces) -> tuple[int, int] | None:
    """First and last piece of the first answer; None where there is none."""
    if not question.answers:
        return None
    answer = question.answers[0]
    text = answer.text.strip()
    start = answer.start + (len(answer.text) - len(answer.text.lstrip()))
    if not question.context.startswith(text, start):
        # Some files do not count white space in front of the answer.
        start = answer.start
    if not text or not question.context.startswith(text, start):
        found = question.context[answer.start : answer.start + len(answer.text)]
        raise BadInput(
            question.file or "questions",
            f"the answer is {answer.text!r}, the context has there",
            record=f"question {question.id}",
            value=found,
        )
    return piece_range(context, (start, start + len(text)))


def _target(answer: tuple[int, int] | None, start: int, end: int) -> NDArray[np.int64]:
    bits = np.zeros(end - start + 1, np.int64)
    if answer is None or answer[0] < start or answer[1] >= end:
        bits[0] = START | END
    else:
        bits[1 + answer[0] - start] |= START
        bits[1 + answer[1] - start] |= END
    return bits


def spans_of_window(
    window: Window, scores_K2: NDArray[np.float32], context: str, settings: AnswerSettings
) -> Iterator[Candidate]:
    """The best spans of a window: all pairs of its best starts and ends that make an answer."""
    starts, ends = scores_K2[1:, 0], scores_K2[1:, 1]
    for a in _best(starts, settings.candidates):
        for b in _best(ends, settings.candidates):
            if a <= b < a + settings.answer_length:
                first, last = int(window.starts[a]), int(window.ends[b])
                text = context[first:last].strip()
                if text:
                    yield Candidate(text, first, last, float(starts[a] + ends[b]))


def _best(scores: NDArray[np.float32], count: int) -> list[int]:
    return [int(i) for i in np.argsort(-scores, kind="stable")[:count]]


def best_answers(candidates: Iterable[Candidate], count: int) -> list[Candidate]:
    """The best candidates, best first; the same words (without regard to case) only once."""
    kept: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=lambda c: (-c.score, c.start, c.end)):
        kept.setdefault(" ".join(candidate.text.lower().split()), candidate)
        if len(kept) == count:
            break
    return list(kept.values())
