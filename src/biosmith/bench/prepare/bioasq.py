"""BioASQ's factoid questions in SQuAD's form: a snippet is a context, an answer is every place where a synonym stands.

Answers are looked for without regard to case, kinds of hyphens and white space ("COX 1" is found in "Cox‑1"), and as
whole words. What is not found is listed: users of other converters got zero scores from answers at wrong places.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from biosmith.artefact import write_by_rename
from biosmith.bench.questions import read_json
from biosmith.bench.spans import exact_answers
from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text import files

_GAP = re.compile(r"[\s\-\u2010-\u2015\u2212]+")
_BETWEEN = r"[\s\-\u2010-\u2015\u2212]*"


def is_bioasq(source: Path) -> bool:
    """Whether a file, or the first JSON file of a folder, begins as BioASQ's question files do."""
    path = next(iter(_question_files(source)), None)
    if path is None:
        return False
    try:
        with files.open_decompressed(path) as stream:
            head = stream.read(files.HEAD)
    except files.BROKEN:
        return False
    return re.match(rb'\s*\{\s*"questions"\s*:\s*\[', head) is not None


def _question_files(source: Path) -> Iterator[Path]:
    paths = sorted(source.iterdir()) if source.is_dir() else [source]
    yield from (p for p in paths if p.is_file() and files.strip_compression(p.name).endswith(".json"))


def bioasq_to_squad(source: Path, out: Path, rejects: Rejects, *, keep_unanswered: bool) -> Counter[str]:
    """Write one file in SQuAD's form; a question with several snippets has ids that end in _001, _002, ...

    Args:
        source: a question file, or a folder of them.
        out: the file to make.
        rejects: receives questions without an answer, a snippet, or a snippet that holds an answer.
        keep_unanswered: keep snippets in which no answer stands, with no answers.

    Raises:
        BadInput: no question file, or no factoid question in it.
    """
    counts: Counter[str] = Counter(questions=0, pairs=0, answers=0, unanswered_pairs=0)
    paragraphs = []
    for path in _question_files(source):
        listed = read_json(path).get("questions")
        if not isinstance(listed, list):
            rejects.add(path, "file", 'has no list "questions"')
            continue
        for number, question in enumerate(listed, start=1):
            if not isinstance(question, dict) or not question.get("id") or not question.get("body"):
                rejects.add(path, f"question {number}", "has no id or no body", question)
            elif (kind := question.get("type")) != "factoid":
                counts[f"skipped_{kind}"] += 1
            else:
                counts["questions"] += 1
                paragraphs += _paragraphs(path, question, rejects, counts, keep_unanswered)
    if not counts["questions"]:
        raise BadInput(source, "holds no factoid question of BioASQ")
    value = {"version": "BioASQ-factoid", "data": [{"title": "BioASQ", "paragraphs": paragraphs}]}
    with write_by_rename(out) as temporary:
        temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return counts


def _paragraphs(
    path: Path, question: dict[str, Any], rejects: Rejects, counts: Counter[str], keep_unanswered: bool
) -> list[dict[str, Any]]:
    id, synonyms = str(question["id"]), exact_answers(question.get("exact_answer"))
    snippets = question.get("snippets") or []
    if not isinstance(snippets, list):
        rejects.add(path, f"question {id}", "its snippets are no list", snippets)
        return []
    texts = dict.fromkeys(str(s["text"]) for s in snippets if isinstance(s, dict) and s.get("text"))
    if not texts:
        rejects.add(path, f"question {id}", "has no snippet")
    if not synonyms and not keep_unanswered:
        rejects.add(path, f"question {id}", "has no exact_answer")
        return []
    made: list[dict[str, Any]] = []
    matched = False
    for text in texts:
        answers = find_answers(text, synonyms)
        matched = matched or bool(answers)
        counts["unanswered_pairs"] += not answers
        if not answers and not keep_unanswered:
            continue
        asked = {"id": f"{id}_{len(made) + 1:03d}", "question": str(question["body"]), "answers": answers}
        made.append({"context": text, "qas": [asked]})
        counts["pairs"] += 1
        counts["answers"] += len(answers)
    if texts and synonyms and not matched:
        rejects.add(path, f"question {id}", "no snippet holds an answer", "; ".join(synonyms))
    return made


def find_answers(text: str, synonyms: tuple[str, ...]) -> list[dict[str, Any]]:
    """Every place where a synonym stands, in order; of places that overlap the longest.

    >>> find_answers("Inhibits Cox‑1 (COX 1).", ("cox-1",))
    [{'text': 'Cox‑1', 'answer_start': 9}, {'text': 'COX 1', 'answer_start': 16}]
    """
    places = set()
    for synonym in synonyms:
        parts = [re.escape(part) for part in _GAP.split(synonym.strip()) if part]
        if parts:
            pattern = rf"(?<!\w){_BETWEEN.join(parts)}(?!\w)"
            places |= {match.span() for match in re.finditer(pattern, text, re.IGNORECASE)}
    kept: list[tuple[int, int]] = []
    for start, end in sorted(places, key=lambda place: (place[0] - place[1], place)):
        if all(end <= a or b <= start for a, b in kept):
            kept.append((start, end))
    return [{"text": text[start:end], "answer_start": start} for start, end in sorted(kept)]
