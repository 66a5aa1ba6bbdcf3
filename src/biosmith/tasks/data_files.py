"""A user's own data for tasks over whole texts: a folder with a file a split, as tables, JSON lines or SQuAD's JSON.

Files are `train`, `dev` (or `devel`, `validation`, ...) and `test` with .tsv, .txt, .csv, .jsonl or .json, plain, .gz
or .xz.

- A table has a header that names its columns (`COLUMNS`), or none: text, label; id, text, label (of pairs: text, pair,
  label); id, text, pair, label, as many as the first row has. Columns are separated by tabs, in a .csv whose first
  line has no tab by commas; several labels by commas.
- JSON lines, or a JSON list in a .json file, have the same names as keys; `labels` may be a list, `entities` two lists
  of start, end and type.
- Questions are SQuAD's JSON, or records with question, context and answers: objects with text and answer_start, or one
  object with a list of each.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biosmith.errors import BadInput, UsageError, shorten
from biosmith.rejects import Rejects
from biosmith.surrogates import parse_json
from biosmith.tasks.fit_answers import gold_answers, group_keys
from biosmith.tasks.fit_sequences import group_names
from biosmith.tasks.instances import ENTITIES, Answer, BadRow, Entity, Instance, Label, Question
from biosmith.tasks.labels import OUTSIDE
from biosmith.tasks.metrics.answers import score_factoid, score_squad
from biosmith.tasks.metrics.classification import (
    accuracy,
    document_micro_f1,
    label_counts,
    labels_of_documents,
    micro_f1,
)
from biosmith.tasks.metrics.similarity import pearson
from biosmith.tasks.tagged import SPLITS, read_conll
from biosmith.text import files

SUFFIXES = (".tsv", ".jsonl", ".json", ".txt", ".csv")
PAIRED = ("similarity", "yesno")
ANSWERS = ("squad", "factoid")
# our name -> names that files use
COLUMNS: dict[str, tuple[str, ...]] = {
    "id": ("id", "index", "pair_id", "pmid"),
    "text": ("text", "sentence", "sentence1", "sent1", "first", "question", "document"),
    "pair": ("pair", "sentence2", "sent2", "second", "text2", "context", "passage"),
    "label": ("label", "labels", "score", "answer", "class"),
    "group": ("group", "document_id"),
}
# Labels of pairs without a relation: never rewarded.
NEGATIVES = ("false", "0", "none", "no_relation", "no relation", "na", "negative", "ddi-false")


@dataclass(frozen=True)
class OwnData:
    """A folder of the user's own files, for one kind of task (see `fitting`)."""

    folder: Path
    kind: str

    name = ""
    labels: tuple[str, ...] = ()

    def files(self, split: str) -> list[Path]:
        """The files of a split; a path to a file is every split."""
        if self.folder.is_file():
            return [self.folder]
        if not self.folder.is_dir():
            raise UsageError(f"{self.folder} does not exist")
        for stem in SPLITS[split]:
            found = [path for path in self.folder.iterdir() if path.is_file() and _is_split(path, stem)]
            if found:
                # train.tsv before train-old.tsv and train.csv, whose names come first in the alphabet
                return [min(found, key=lambda path: (_stem(path) != stem, _is_csv(path), path.name))]
        return []

    def load(self, split: str, rejects: Rejects) -> list[Any]:
        """The instances of a split.

        Raises:
            UsageError: there is no such split, or it holds words with tags.
            BadInput: a file cannot be read, or holds no instance.
        """
        paths = self.files(split)
        if not paths:
            there = [s for s in SPLITS if self.files(s)]
            raise UsageError(
                f"{self.folder} has no {split} split (found: {', '.join(there) or 'none'}); expected "
                f"{split}.tsv, {split}.jsonl or {split}.json, or a dataset of `biosmith data ls` by --dataset"
            )
        for path in paths:
            if self.kind not in ANSWERS and _holds_tags(path):
                raise UsageError(
                    f"{path} holds words with tags, not texts with labels: take `finetune ner`, or `finetune pico` to "
                    "score by word"
                )
        read = read_questions if self.kind in ANSWERS else read_instances
        found: list[Any] = [i for path in paths for i in read(path, self.kind, rejects)]
        require_instances(found, paths, rejects)
        return found

    def score(self, instances: Sequence[Any], predictions: Sequence[Any]) -> dict[str, Any]:
        """`metric`, `value` and what belongs to them."""
        return score_kind(self.kind, instances, predictions)


def require_instances(found: Sequence[Any], paths: Sequence[Path], rejects: Rejects) -> None:
    """Raise `BadInput` if files held no instance; names the first record of theirs that was set aside."""
    if found:
        return
    bad = next((item for item in rejects.items if item["file"] in map(str, paths)), None)
    if bad is None:
        raise BadInput(paths[0], "holds no instance")
    reason = f"{bad['reason']}; no instance is left"
    raise BadInput(bad["file"], reason, record=bad["record"], value=bad.get("value"))


def _stem(path: Path) -> str:
    return Path(files.strip_compression(path.name)).stem


def _is_csv(path: Path) -> bool:
    return files.strip_compression(path.name).endswith(".csv")


def _is_split(path: Path, stem: str) -> bool:
    """Whether a file is named after a split; what lies beside one (`instances.with_entities`) is none."""
    name = files.strip_compression(path.name)
    if not name.endswith(SUFFIXES) or name.endswith(ENTITIES):
        return False
    return name.startswith(stem) and not name[len(stem) : len(stem) + 1].isalpha()


def _holds_tags(path: Path) -> bool:
    """Whether a table is one of tagged words: blank lines between sentences, O and other tags, and no text of several
    words. So many sentences are looked at that some mention is among them; a table of texts ends at its first label."""
    if files.strip_compression(path.name).endswith((".jsonl", ".json")):
        return False
    try:
        sentences = list(itertools.islice(read_conll(path), 200))
    except BadInput:
        return False
    tags = {tag for sentence in sentences for tag in sentence.tags}
    has_texts = any(" " in word for sentence in sentences for word in sentence.words)
    return len(sentences) > 1 and OUTSIDE in tags and len(tags) > 1 and not has_texts


def read_instances(path: Path, kind: str, rejects: Rejects) -> Iterator[Instance]:
    """The instances of a table or of JSON lines; bad rows go to `rejects` with their line.

    Raises:
        BadInput: the file is damaged or not UTF-8; a bad row where `rejects` is strict.
    """
    names: Sequence[str] = ()
    said_by = "first row"
    suffix = Path(files.strip_compression(path.name)).suffix
    has_commas = _is_csv(path) and _has_commas(path)
    for place, record in _comma_rows(path) if has_commas else _json_list(path) or _lines(path):
        if isinstance(record, str) and not record.strip():
            continue
        try:
            is_json = suffix in (".jsonl", ".json")
            if is_json or (not has_commas and record.startswith("{") and suffix != ".tsv"):
                row = _named(_object(record))
            else:
                cells = record if has_commas else record.split("\t")
                if place == 1 and (header := _header(cells, path)) is not None:
                    names, said_by = header, "header"
                    continue
                names = names or _places(cells, kind)
                if len(cells) != len(names):
                    raise BadRow(f"has {len(cells)} columns, the {said_by} {len(names)}")
                row = dict(zip(names, cells, strict=True))
            yield _instance(row, kind, str(path), place)
        except BadRow as error:
            rejects.add(path, f"line {place}" if isinstance(place, int) else place, str(error), record)


def _json_list(path: Path) -> list[tuple[int | str, Any]]:
    """The members of a file that is a JSON list, or its only object, with their place; none of other files."""
    if not files.strip_compression(path.name).endswith(".json"):
        return []
    whole = _whole(path, _text(path))
    members = whole if isinstance(whole, list) else [whole] if isinstance(whole, dict) else []
    return [(f"record {number}", member) for number, member in enumerate(members, start=1)]


def _whole(path: Path, text: str) -> Any:
    """The value of a JSON file; None of lines of JSON.

    Raises:
        BadInput: a file that is called .json is neither; names the line.
    """
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        if files.strip_compression(path.name).endswith(".json") and not _is_json(
            text.lstrip().split("\n")[0]
        ):
            line = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else None
            raise BadInput(path, f"is not JSON: {error}", record=line) from error
        return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _text(path: Path) -> str:
    with files.open_decompressed(path) as stream:
        try:
            return stream.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadInput(path, f"is not UTF-8: {error.reason}") from error
        except files.BROKEN as error:
            raise BadInput(path, f"is damaged: {error}") from error


def _lines(path: Path) -> Iterator[tuple[int | str, Any]]:
    number = 0
    with files.open_decompressed(path) as stream:
        try:
            for number, raw in enumerate(stream, start=1):
                yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise BadInput(path, f"is not UTF-8: {error.reason}", record=f"line {number}") from error
        except files.BROKEN as error:
            raise BadInput(path, f"is damaged: {error}", record=f"after line {number}") from error


def _has_commas(path: Path) -> bool:
    """Whether a .csv is one of commas: its first line that is not blank has some, and no tab."""
    first = next((line for _, line in _lines(path) if line.strip()), "")
    return "," in first and "\t" not in first and not first.startswith("{")


def _comma_rows(path: Path) -> Iterator[tuple[int | str, Any]]:
    """The rows of a table with commas and the lines they begin at; quoted cells may hold commas and line ends."""
    rows = csv.reader((f"{line}\n" for _, line in _lines(path)), strict=True)
    begin = 1
    try:
        for cells in rows:
            if any(cell.strip() for cell in cells):
                yield begin, cells
            begin = rows.line_num + 1
    except csv.Error as error:
        raise BadInput(path, f"is not CSV: {error}", record=f"line {begin}") from error


def _object(record: Any) -> dict[str, Any]:
    try:
        value = parse_json(record) if isinstance(record, str) else record
    except (ValueError, RecursionError) as error:
        raise BadRow(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRow("is not a JSON object")
    return value


def _header(cells: Sequence[str], path: Path) -> list[str] | None:
    """Our names of a header's columns; None if the row is none.

    Raises:
        BadInput: it names a text and no label, or a label and no text, or two columns mean the same.
    """
    found = [_our_name(cell.strip()) for cell in cells]
    named = [name for name in found if name is not None]
    is_header = cells[-1].strip().lower() in ("label", "labels") or {"id", "label"} <= set(named)
    if ("text" not in named and not is_header) or (named == ["text"] and found[-1] == "text"):
        return None
    missing = next((name for name in ("text", "label") if name not in named), None)
    if missing or len(named) != len(set(named)):
        reason = f"the header names no {missing}" if missing else "two columns of the header mean the same"
        valid = [name for names in COLUMNS.values() for name in names]
        raise BadInput(path, reason, record="line 1", value=list(cells), valid=valid)
    return [name or cell for name, cell in zip(found, cells, strict=True)]


def _our_name(name: str) -> str | None:
    return next((ours for ours, theirs in COLUMNS.items() if name.lower() in theirs), None)


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object under our names; of several keys that mean the same our own name says which.

    Raises:
        BadRow: none of these is our own name.
    """
    named: dict[str, str] = {}
    for key in row:
        ours = _our_name(key) or key
        if ours in named and ours not in row:
            raise BadRow(f"{named[ours]} and {key} both mean the {ours}")
        if ours not in named or key == ours:
            named[ours] = key
    return {ours: row[key] for ours, key in named.items()}


def _places(cells: Sequence[str], kind: str) -> tuple[str, ...]:
    """The columns of a table without a header."""
    layouts: dict[int, tuple[str, ...]] = {
        2: ("text", "label"),
        3: ("text", "pair", "label") if kind in PAIRED else ("id", "text", "label"),
        4: ("id", "text", "pair", "label"),
    }
    if len(cells) not in layouts:
        columns = f"{len(cells)} columns" if len(cells) > 1 else "one column"
        raise BadRow(
            f"has {columns}; without a header 2, 3 or 4 are expected (id, text, pair, label), with tabs between them, "
            "or commas in a .csv"
        )
    return layouts[len(cells)]


def _instance(row: Mapping[str, Any], kind: str, file: str, line: int | str) -> Instance:
    if not isinstance(row.get("text"), str) or "label" not in row:
        raise BadRow(f"a text and a label are expected, found {', '.join(row)}")
    if not row["text"].strip():
        raise BadRow("the text is empty")
    pair = str(row.get("pair") or "")
    if kind in PAIRED and not pair:
        raise BadRow("a second text is expected")
    entities = _entities(row.get("entities"), row["text"])
    if kind == "relation" and len(entities) not in (0, 2):
        raise BadRow(f"two entities are expected, not {len(entities)}")
    return Instance(
        _name(row.get("id")) or str(line),
        row["text"],
        _label(row["label"], kind),
        pair,
        _name(row.get("group")),
        file,
        line,
        entities,
    )


def _name(value: Any) -> str:
    """An id or a group, which may be the number 0; "" for none."""
    return "" if value is None else str(value)


def _label(value: Any, kind: str) -> Label:
    if kind == "similarity":
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise BadRow(f"the label {value!r} is not a number")
        return number
    if kind == "documents":
        labels = value if isinstance(value, list) else _name(value).split(",")
        return tuple(str(label).strip() for label in labels if str(label).strip())
    if value is None or isinstance(value, list | dict) or str(value).strip() == "":
        raise BadRow(f"the label {value!r} is not one label")
    return str(value).strip()


def _entities(value: Any, text: str) -> tuple[Entity, ...]:
    try:
        entities = tuple(Entity(int(a), int(b), str(type)) for a, b, type in value or ())
    except (TypeError, ValueError):
        raise BadRow(f"entities are not lists of start, end and type: {shorten(value)}") from None
    for entity in entities:
        covered = text[max(0, entity.start) : max(0, entity.end)]
        if not 0 <= entity.start < entity.end <= len(text) or covered != covered.strip():
            raise BadRow(
                f"the entity from {entity.start} to {entity.end} does not fit the text of {len(text)} characters, "
                f"there is {covered!r}"
            )
    return entities


def read_questions(path: Path, kind: str, rejects: Rejects) -> Iterator[Question]:
    """The questions of a file in SQuAD's form, or of JSON lines.

    Raises:
        BadInput: the file is in neither form; a bad question where `rejects` is strict.
    """
    for place, record in _question_records(path, _text(path)):
        try:
            yield _question(_object(record), str(path), place)
        except BadRow as error:
            rejects.add(path, place, str(error))


def _question_records(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Places and records: of SQuAD's JSON, of a JSON list, or of lines."""
    whole = _whole(path, text)
    if isinstance(whole, dict) and isinstance(whole.get("data"), list):
        yield from _squad_records(whole["data"])
    elif isinstance(whole, list):
        yield from ((f"record {number}", member) for number, member in enumerate(whole, start=1))
    else:
        lines = enumerate(text.split("\n"), start=1)
        yield from ((f"line {number}", line) for number, line in lines if line.strip())


def _squad_records(articles: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """The questions of SQuAD's JSON; what is no object stands for itself, so that it is named."""
    for number, article in enumerate(articles, start=1):
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(paragraphs, list):
            yield f"article {number}", article
            continue
        for index, paragraph in enumerate(paragraphs, start=1):
            place = f"article {number}, paragraph {index}"
            if not isinstance(paragraph, dict):
                yield place, paragraph
                continue
            for asked in paragraph.get("qas") or ():
                if isinstance(asked, dict):
                    yield f"question {asked.get('id')}", {**asked, "context": paragraph.get("context")}
                else:
                    yield place, asked


def _question(record: Mapping[str, Any], file: str, place: str) -> Question:
    question, context = record.get("question"), record.get("context")
    if not isinstance(question, str) or not isinstance(context, str):
        raise BadRow(f"a question and a context are expected, found {', '.join(record)}")
    answers = []
    for given in _answers(record.get("answers") or ()):
        text, start = given.get("text"), given.get("answer_start", given.get("start"))
        if not isinstance(text, str) or not text.strip() or not isinstance(start, int) or start < 0:
            raise BadRow(f"an answer has no text or no answer_start: {shorten(given)}")
        if not context.startswith(text.strip(), start) and not context.startswith(text, start):
            raise BadRow(
                f"the answer {text!r} does not stand at {start}, there is {context[start:][: len(text)]!r}"
            )
        answers.append(Answer(text, start))
    gold = tuple(map(str, record.get("gold") or ()))
    name, group = _name(record.get("id")) or place, _name(record.get("group"))
    return Question(name, question, context, tuple(answers), gold, group, file, place)


def _answers(given: Any) -> Sequence[Mapping[str, Any]]:
    """Answers as objects; Hugging Face's form of SQuAD has one object with a list of each."""
    if isinstance(given, dict) and isinstance(given.get("text"), list):
        starts = given.get("answer_start")
        if not isinstance(starts, list) or len(starts) != len(given["text"]):
            raise BadRow(f"answers have no answer_start for each text: {shorten(given)}")
        return [{"text": t, "answer_start": s} for t, s in zip(given["text"], starts, strict=True)]
    if not isinstance(given, list | tuple) or not all(isinstance(one, dict) for one in given):
        raise BadRow(f"answers are not objects with text and answer_start: {shorten(given)}")
    return given


def score_kind(kind: str, instances: Sequence[Any], predictions: Sequence[Any]) -> dict[str, Any]:
    """The plain scores of a kind, for data that has no protocol of its own."""
    if kind == "similarity":
        return {"metric": "pearson", "value": pearson([float(i.label) for i in instances], predictions)}
    if kind == "documents":
        groups = group_names(instances)
        gold = labels_of_documents(groups, (i.label for i in instances))
        counts = document_micro_f1(gold, labels_of_documents(groups, predictions))
        return {"metric": "micro_f1", "value": counts.f1, **counts.as_dict()}
    if kind == "squad":
        scores = score_squad([gold_answers(q) for q in instances], predictions)
        return {"metric": "f1", "value": scores.f1, "f1": scores.f1, "exact_match": scores.exact_match}
    if kind == "factoid":
        return _factoid_scores(instances, predictions)
    given, right = list(predictions), [str(i.label) for i in instances]
    by_label = {name: counts.as_dict() for name, counts in label_counts(right, given).items()}
    exact = {"accuracy": accuracy(right, given), "labels": by_label}
    negative = {label for label in (*right, *given) if label.lower() in NEGATIVES}
    if kind == "relation" and negative:
        counts = micro_f1(right, given, negative)
        return {
            "metric": "micro_f1",
            "value": counts.f1,
            **counts.as_dict(),
            "negative": sorted(negative),
            **exact,
        }
    return {"metric": "accuracy", "value": exact["accuracy"], **exact}


def _factoid_scores(questions: Sequence[Question], predictions: Sequence[Any]) -> dict[str, Any]:
    gold: dict[Any, list[str]] = {}
    for key, question in zip(group_keys(questions), questions, strict=True):
        gold.setdefault(key, []).extend(gold_answers(question))
    scores = score_factoid(list(gold.values()), predictions)
    return {"metric": "mean_reciprocal_rank", "value": scores.mean_reciprocal_rank, **vars(scores)}


def own_kind(folder: Path, kinds: Sequence[str]) -> str:
    """The kind of a user's own data: "factoid" where questions come in groups of contexts, else the first."""
    if "factoid" not in kinds or len(kinds) == 1:
        return kinds[0]
    data = OwnData(folder, "squad")
    for split in SPLITS:
        if data.files(split):
            grouped = any(question.group for question in data.load(split, Rejects()))
            return "factoid" if grouped else kinds[0]
    return kinds[0]
