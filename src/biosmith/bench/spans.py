"""Questions whose answers stand in a text: SQuAD's form and scores, and BioASQ's factoid questions."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import About, Mistake, find_file, find_folder, missing_split, no_instances
from biosmith.bench.questions import read_json
from biosmith.errors import BadInput, UsageError, shorten
from biosmith.rejects import Rejects
from biosmith.tasks.instances import Answer, BadRow, Question
from biosmith.tasks.metrics.answers import score_factoid, score_squad
from biosmith.text import files

log = logging.getLogger("biosmith")
_CONTEXT_NUMBER = re.compile(r"_\d{3}$")


@dataclass(frozen=True)
class Squad:
    """Questions over paragraphs in SQuAD's JSON, scored by the overlap of words (F1), exact match beside it.

    Attributes:
        names_of: split -> names its file may have.
    """

    about: About
    names_of: tuple[tuple[str, tuple[str, ...]], ...]

    def find(self, data: Path) -> dict[str, list[Path]]:
        """See `Dataset`."""
        folder = find_folder(self.about, data, [n for _, names in self.names_of for n in names])
        found = {s: next((f for n in ns if (f := find_file(folder, n))), None) for s, ns in self.names_of}
        return {split: [path] for split, path in found.items() if path is not None}

    def load(self, data: Path, split: str, rejects: Rejects | None = None) -> list[Question]:
        """See `Dataset`."""
        found = self.find(data)
        if split not in found:
            raise missing_split(self.about, split, found)
        collected = Rejects(strict=True) if rejects is None else rejects
        with reported(self.about.name, rejects) as moved:
            questions = [q for path in found[split] for q in read_squad(path, collected, moved)]
        if not questions and not collected.count:
            raise no_instances(self.about, found[split])
        return questions

    def count(self, instances: Sequence[Question]) -> dict[str, int]:
        """Questions, their contexts, and how many of them the context does not answer."""
        return {
            "instances": len(instances),
            "contexts": len({q.context for q in instances}),
            "unanswerable": sum(not q.answers for q in instances),
        }

    def names(self, instances: Sequence[Question]) -> list[str]:
        """The ids of the questions."""
        return [q.id for q in instances]

    def score(self, instances: Sequence[Question], predictions: Sequence[Any]) -> dict[str, Any]:
        """See `Dataset`; a prediction is the answer as a string, empty for none."""
        for i, answer in enumerate(predictions):
            if not isinstance(answer, str):
                raise Mistake(i, "a string is expected, empty where the text holds no answer", answer)
        scores = score_squad([[a.text for a in q.answers] for q in instances], predictions)
        return {
            "value": scores.f1,
            "f1": scores.f1,
            "exact_match": scores.exact_match,
            "answerable_f1": scores.answerable,
            "unanswerable_f1": scores.unanswerable,
        }


@dataclass(frozen=True)
class Factoid:
    """BioASQ's factoid questions, each with several texts, in SQuAD's JSON as the BioBERT authors prepared them.

    Files are known by the words in their names: "factoid" with "train" or "test", and "golden" for BioASQ's own files
    with the synonyms that answers are scored against. Contexts of one question have ids that end in _001, _002, ...
    """

    about: About

    def find(self, data: Path) -> dict[str, list[Path]]:
        """See `Dataset`; the golden files stand at the end of the test split's."""
        folder = next((f for f in self._folders(data) if f.is_dir() and _named(f, "factoid")), None)
        if folder is None:
            expected = (
                "files named BioASQ-train-factoid-7b*.json, BioASQ-test-factoid-7b*.json and *golden.json"
            )
            raise UsageError(f"{self.about.name} is not in {data}; expected {expected}. {self.about.source}")
        found: dict[str, list[Path]] = {}
        for split in ("train", "dev", "test"):
            if paths := _of_one_kind([p for p in _named(folder, "factoid") if split in p.name.lower()]):
                found[split] = [*paths, *(_named(folder, "golden") if split == "test" else ())]
        return found

    def _folders(self, data: Path) -> Iterator[Path]:
        data = Path(data)
        if not data.is_dir():
            raise UsageError(f"{data} does not exist" if not data.exists() else f"{data} is not a folder")
        for name in self.about.folders:
            yield data / name
        yield data

    def load(self, data: Path, split: str, rejects: Rejects | None = None) -> list[Question]:
        """See `Dataset`."""
        found = self.find(data)
        if split not in found:
            raise missing_split(self.about, split, found)
        collected = Rejects(strict=True) if rejects is None else rejects
        golden = [path for path in found[split] if "golden" in path.name.lower()]
        synonyms = _synonyms(golden, collected)
        questions = []
        with reported(self.about.name, rejects) as moved:
            asked = [q for p in found[split] if p not in golden for q in read_squad(p, collected, moved)]
        for question in asked:
            group = _CONTEXT_NUMBER.sub("", question.id)
            gold = synonyms.get(group) or tuple(dict.fromkeys(a.text for a in question.answers))
            if split == "test" and not gold:
                reason = "has no answer here and is in none of the golden files"
                collected.add(question.file, f"question {question.id}", reason)
                continue
            questions.append(replace(question, group=group, gold=gold))
        if not questions and not collected.count:
            raise no_instances(self.about, found[split])
        return questions

    def count(self, instances: Sequence[Question]) -> dict[str, int]:
        """Questions, and pairs of a question and one of its texts."""
        return {"instances": len({q.group for q in instances}), "pairs": len(instances)}

    def names(self, instances: Sequence[Question]) -> list[str]:
        """The ids of the questions, without the numbers of their texts."""
        return list(dict.fromkeys(q.group for q in instances))

    def score(self, instances: Sequence[Question], predictions: Sequence[Any]) -> dict[str, Any]:
        """See `Dataset`; a prediction is a list of answers to a question over all its texts, best first."""
        for i, answers in enumerate(predictions):
            if not isinstance(answers, list) or not all(isinstance(a, str) for a in answers):
                raise Mistake(i, "a list of answers is expected, best first", answers)
        gold: dict[str, dict[str, None]] = {}
        for question in instances:
            gold.setdefault(question.group, {}).update(dict.fromkeys(question.gold))
        scores = score_factoid([list(g) for g in gold.values()], predictions)
        three = (scores.strict_accuracy, scores.lenient_accuracy, scores.mean_reciprocal_rank)
        return {"value": scores.mean_reciprocal_rank, **vars(scores), "mean_of_three": sum(three) / 3}


def _named(folder: Path, word: str) -> list[Path]:
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and word in path.name.lower()
        and files.strip_compression(path.name).lower().endswith(".json")
    ]


def _of_one_kind(paths: list[Path]) -> list[Path]:
    """The files of the first folder that has any: the same questions are released with several kinds of contexts."""
    return [path for path in paths if path.parent == paths[0].parent]


def _synonyms(golden: Sequence[Path], rejects: Rejects) -> dict[str, tuple[str, ...]]:
    """Question -> the answers that are right, from BioASQ's own files."""
    found: dict[str, tuple[str, ...]] = {}
    for path in golden:
        listed = read_json(path).get("questions") or ()
        if not isinstance(listed, list | tuple):
            rejects.add(path, "file", "its questions are no list", listed)
            continue
        for question in listed:
            if not isinstance(question, dict) or question.get("type", "factoid") != "factoid":
                continue
            answers = exact_answers(question.get("exact_answer"))
            if not answers:
                rejects.add(path, f"question {question.get('id')}", "has no exact_answer")
            found[str(question.get("id"))] = answers
    return found


def exact_answers(value: Any) -> tuple[str, ...]:
    """BioASQ writes an answer as a string, a list of synonyms, or a list of such lists."""
    if isinstance(value, str):
        return (value.strip(),) if value.strip() else ()
    if isinstance(value, list):
        return tuple(dict.fromkeys(answer for item in value for answer in exact_answers(item)))
    return ()


@contextmanager
def reported(name: str, rejects: Rejects | None) -> Iterator[Rejects]:
    """Where faults go that leave no record out: to `rejects`, or else as a number to the log."""
    faults = Rejects() if rejects is None else rejects
    yield faults
    if rejects is None and faults.count:
        log.warning(
            "%s: %d offsets do not fit their texts; biosmith data check lists them", name, faults.count
        )


def read_squad(path: Path, rejects: Rejects, moved: Rejects) -> Iterator[Question]:
    """The questions of a file in SQuAD's form.

    An answer that is not where `answer_start` says is looked for in its context: the nearest place is taken and noted
    in `moved`; a question whose answer is nowhere is set aside. White space around an answer that `answer_start` does
    not count (COVID-QA) is left out.

    Raises:
        BadInput: the file is not in this form; a question cannot be used and `rejects` is strict.
    """
    articles = read_json(path).get("data")
    if not isinstance(articles, list):
        raise BadInput(path, 'is not in the form of SQuAD: has no list "data"')
    for number, article in enumerate(articles, start=1):
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(paragraphs, list):
            rejects.add(path, f"article {number}", 'has no list "paragraphs"', article)
            continue
        for index, paragraph in enumerate(paragraphs, start=1):
            place = f"article {number}, paragraph {index}"
            if not isinstance(paragraph, dict) or not isinstance(paragraph.get("context"), str):
                rejects.add(path, place, "has no context", paragraph)
                continue
            qas = paragraph.get("qas") or ()
            if not isinstance(qas, list | tuple):
                rejects.add(path, place, "its qas are no list", qas)
                continue
            for asked in qas:
                record = f"question {asked.get('id')}" if isinstance(asked, dict) else place
                try:
                    yield _question(asked, paragraph["context"], path, moved)
                except BadRow as error:
                    rejects.add(path, record, str(error))


def _question(asked: Any, context: str, path: Path, moved: Rejects) -> Question:
    if not isinstance(asked, dict) or "id" not in asked or not isinstance(asked.get("question"), str):
        raise BadRow("has no id or no question")
    id = str(asked["id"])
    answers: dict[Answer, None] = {}
    listed = asked.get("answers") or ()
    if not isinstance(listed, list | tuple):
        raise BadRow(f"its answers are no list: {shorten(listed)}")
    for given in listed:
        answer, fault = _answer(given, context)
        answers[answer] = None
        if fault:
            moved.add(path, f"question {id}", fault, given["text"])
    impossible = asked.get("is_impossible")
    if impossible is not None and impossible == bool(answers):
        raise BadRow(f"is_impossible is {impossible} and there are {len(answers)} answers")
    return Question(id, asked["question"], context, tuple(answers), file=str(path), line=f"question {id}")


def _answer(answer: Any, context: str) -> tuple[Answer, str]:
    """The answer at the place where it is, and what is wrong with the place that the file gives."""
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
        raise BadRow("an answer has no text")
    text, start = answer["text"], answer.get("answer_start")
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise BadRow(f"answer_start of {shorten(text)} is {start!r}, not a place in the context")
    if context.startswith(text, start) and text.strip():
        begin = start + len(text) - len(text.lstrip())
        return Answer(text.strip(), begin), ""
    text = text.strip()
    if text and context.startswith(text, start):
        return Answer(text, start), ""
    places = [m.start() for m in re.finditer(re.escape(text), context)] if text else []
    if not places:
        raise BadRow(f"answer {shorten(text)} is not in the context")
    nearest = min(places, key=lambda place: abs(place - start))
    there = shorten(context[start : start + min(len(text), 40)])
    fault = f"answer_start is {start}, where the context has {there}; the answer is at {nearest} ({nearest - start:+d})"
    return Answer(text, nearest), fault
