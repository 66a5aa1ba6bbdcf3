"""Fitting on answers that are spans: SQuAD (one answer, perhaps none) and BioASQ factoid (a list, best first)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from biosmith.artefact import Manifest
from biosmith.tasks.answer_network import AnyAnswers, load_answer_network, new_answer_network
from biosmith.tasks.answers import Candidate, best_answers, make_windows, spans_of_window
from biosmith.tasks.fit_sequences import settings_from
from biosmith.tasks.fitting import Predictions, Score, require_instances_of
from biosmith.tasks.inputs import InputTransform
from biosmith.tasks.instances import Question
from biosmith.tasks.layers import prepare_layers
from biosmith.tasks.metrics.answers import score_factoid, score_squad
from biosmith.tasks.settings import AnswerSettings
from biosmith.tasks.tagging import TorchEngine
from biosmith.tasks.training import History, choose_device, seeded, train
from biosmith.tasks.tuned_folder import kept_epoch, write_tuned

Scores = NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class Answered:
    """What is known of one question over one context.

    Attributes:
        candidates: spans, best first.
        no_answer: score of "no answer", the lowest of all windows (Devlin et al., 2019, section 4.3).
    """

    candidates: list[Candidate]
    no_answer: float


class TunedAnswers:
    """See `fitting.Tuned`."""

    labels: Sequence[str] = ()

    def __init__(
        self,
        kind: str,
        network: AnyAnswers,
        transform: InputTransform,
        settings: AnswerSettings,
        device: torch.device,
    ) -> None:
        self.kind, self.network, self.transform, self.settings = kind, network, transform, settings
        self.engine = TorchEngine(network, device)
        self.max_length = min(settings.max_length, network.positions)
        self.history: History | None = None
        self.counts: dict[str, Any] = {}

    def answer(self, questions: Sequence[Question]) -> tuple[list[Answered], int]:
        """Candidates for each question, and how many questions lost their end."""
        made = make_windows(questions, self.transform, self.max_length, self.settings, training=False)
        scores = self.engine([w.example for w in made.windows])
        found: list[list[Candidate]] = [[] for _ in questions]
        no_answer = np.full(len(questions), np.inf)
        for window, scores_K2 in zip(made.windows, scores, strict=True):
            n = window.question
            no_answer[n] = min(no_answer[n], float(scores_K2[0].sum()))
            found[n] += spans_of_window(window, scores_K2, questions[n].context, self.settings)
        many = max(self.settings.answers, self.settings.candidates)
        answered = [
            Answered(best_answers(spans, many), float(null))
            for spans, null in zip(found, no_answer, strict=True)
        ]
        return answered, made.truncated

    def predict(self, instances: Sequence[Question]) -> Predictions:
        """See `Tuned`; contexts are read whole, in windows, and only questions can be truncated."""
        require_instances_of(self.kind, instances)
        answered, truncated = self.answer(instances)
        if self.kind == "factoid":
            return Predictions(self._lists(instances, answered), truncated)
        return Predictions([self._text(a) for a in answered], truncated)

    def _text(self, answered: Answered) -> str:
        best = answered.candidates[0] if answered.candidates else None
        if best is None:
            return ""
        lead = answered.no_answer - best.score
        return "" if self.settings.unanswerable and lead > self.settings.null_threshold else best.text

    def _lists(self, questions: Sequence[Question], answered: Sequence[Answered]) -> list[Any]:
        """The best answers of each group's contexts together, in the order in which the groups come."""
        together: dict[Any, list[Candidate]] = {}
        for key, one in zip(group_keys(questions), answered, strict=True):
            together.setdefault(key, []).extend(one.candidates)
        return [[c.text for c in best_answers(all, self.settings.answers)] for all in together.values()]

    def save(self, folder: Path, manifest: Manifest) -> None:
        """See `Tuned`."""
        config = {"settings": self.settings, "max_length": self.max_length}
        write_tuned(
            folder,
            self.network,
            manifest,
            kind=self.kind,
            labels=(),
            config=config,
            counts=self.counts,
            history=self.history,
        )


def fit(
    kind: str,
    model: Path,
    train_split: Sequence[Question],
    dev: Sequence[Question] | None,
    settings: AnswerSettings,
    *,
    labels: Sequence[str] = (),
    score: Score | None = None,
    work: Path | None = None,
    identity: Any = None,
) -> TunedAnswers:
    """See `fitting.fit`; there are no labels."""
    if settings.unanswerable is None:
        settings = dataclasses.replace(settings, unanswerable=any(not q.answers for q in train_split))
    with seeded(settings.seed, "head"):
        network = new_answer_network(model, settings.dropout)
        prepare_layers(network, settings)
    tuned = TunedAnswers(kind, network, InputTransform(model), settings, choose_device(settings.device))
    made = make_windows(train_split, tuned.transform, tuned.max_length, settings, training=True)
    examples = [w.example for w in made.windows]

    def score_dev() -> Mapping[str, float]:
        assert dev is not None
        predicted = tuned.predict(dev).values
        return {"value": score(predicted) if score is not None else _plain_score(kind, dev, predicted)}

    tuned.history = train(
        network,
        examples,
        network.loss,
        settings,
        score=None if dev is None else score_dev,
        work=work,
        identity=identity,
    )
    tuned.counts = {
        "questions": len(train_split),
        "sequences": len(examples),
        "truncated": made.truncated,
        "epoch": kept_epoch(tuned.history, settings.keep),
        "dev_value": tuned.history.best_score,
    }
    return tuned


def group_keys(questions: Sequence[Question]) -> list[Any]:
    """What each question is answered with: its group, or itself alone."""
    return [("group", q.group) if q.group else n for n, q in enumerate(questions)]


def gold_answers(question: Question) -> list[str]:
    """What an answer is scored against."""
    return list(question.gold) or [answer.text for answer in question.answers]


def _plain_score(kind: str, dev: Sequence[Question], predicted: Sequence[Any]) -> float:
    """F1 of SQuAD, or the mean reciprocal rank over groups."""
    if kind == "squad":
        return score_squad([gold_answers(q) for q in dev], predicted).f1
    gold: dict[Any, list[str]] = {}
    for key, question in zip(group_keys(dev), dev, strict=True):
        gold.setdefault(key, []).extend(gold_answers(question))
    return score_factoid(list(gold.values()), predicted).mean_reciprocal_rank


def load(kind: str, folder: Path, device: str = "auto") -> TunedAnswers:
    """See `fitting.load_tuned`."""
    settings = settings_from(kind, folder)
    network = load_answer_network(folder)
    return TunedAnswers(kind, network, InputTransform(folder), settings, choose_device(device))
