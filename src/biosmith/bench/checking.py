"""What is wrong with a dataset's files, by file and line; and what is only odd.

Wrong is what leaves a record out, makes two splits share a record, or points at the wrong characters. Odd is what many
published files have and every reader here takes as it stands: a quote that is not closed (a reader of CSV would swallow
the lines down to the next one), an `I` tag that begins a mention, a text that two splits share.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import SPLITS, Dataset, missing_split
from biosmith.bench.kinds import Tagging
from biosmith.bench.tagging import TaggedDocuments
from biosmith.errors import BadInput, BiosmithError
from biosmith.rejects import Rejects
from biosmith.tasks.instances import Instance, Question
from biosmith.tasks.labels import OUTSIDE, split_tag
from biosmith.tasks.tagged import TaggedSentence
from biosmith.text import files

LONGEST_SENTENCE = 400  # words; beyond that more than one sentence must stand in it


@dataclass(frozen=True)
class Check:
    """What was found; both list file, record, reason and value, of the first ten thousand."""

    problems: Rejects = field(default_factory=lambda: Rejects(keep=10_000))
    oddities: Rejects = field(default_factory=lambda: Rejects(keep=10_000))

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "problems": self.problems.count,
            "reasons": dict(self.problems.reasons),
            "items": self.problems.items,
            "warnings": self.oddities.count,
            "warning_reasons": dict(self.oddities.reasons),
            "warning_items": self.oddities.items,
        }


def check_dataset(dataset: Dataset, data: Path) -> Check:
    """Look through all splits of a dataset.

    Raises:
        UsageError: the dataset is not there.
    """
    check = Check()
    if isinstance(dataset, Tagging) and dataset.one_type:
        dataset = replace(dataset, one_type=False)  # the types in the files are checked all the same
    found = dataset.find(data)
    if not found:
        raise missing_split(dataset.about, "train", found)
    splits: dict[str, Sequence[Any]] = {}
    for split in SPLITS:
        paper = dataset.about.paper.get(split)
        if split not in found:
            if paper is None or paper.count != 0:
                check.oddities.add(data, f"{split} split", "is not there")
            continue
        splits[split] = _load(dataset, data, split, found[split][0], check)
    _check_ids(splits, check)
    _check_texts(splits, check)
    if isinstance(dataset, Tagging):
        _check_tags(dataset, splits, check)
        _check_mentions(splits, found, check)
    return check


def _load(dataset: Dataset, data: Path, split: str, file: Path, check: Check) -> Sequence[Any]:
    before = check.problems.count
    try:
        instances = dataset.load(data, split, check.problems)
    except BadInput as error:
        valid = "" if error.valid is None else f"; valid: {', '.join(error.valid)}"
        check.problems.add(error.file, error.record or f"{split} split", error.reason + valid, error.value)
        return []
    except BiosmithError as error:
        check.problems.add(file, f"{split} split", str(error))
        return []
    if not instances and check.problems.count == before:
        check.problems.add(file, f"{split} split", "is empty")
    return instances


@dataclass(frozen=True)
class _Record:
    """Where an instance stands, what it is called, and its texts."""

    file: str
    line: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]


def _records(instances: Sequence[Any]) -> Iterator[_Record]:
    for i in instances:
        if isinstance(i, TaggedSentence):
            place = f"line {i.line}" if isinstance(i.line, int) else f"document {i.line}"
            ids = () if isinstance(i.line, int) else (i.line,)
            yield _Record(i.file, place, ids, (" ".join(i.words),))
        elif isinstance(i, Question):
            yield _Record(i.file, str(i.line), tuple({i.id, i.group} - {""}), (i.text, i.context))
        elif isinstance(i, Instance):
            place = f"line {i.line}" if isinstance(i.line, int) else str(i.line)
            yield _Record(i.file, place, (i.group or i.id,), (i.text, i.pair))


def _check_ids(splits: Mapping[str, Sequence[Any]], check: Check) -> None:
    """No id in two splits, and no id of an instance twice in one."""
    first: dict[str, tuple[str, _Record]] = {}
    for split, instances in splits.items():
        if _counts_rows(instances):
            continue
        told: set[str] = set()
        for record in _records(instances):
            for id in record.ids:
                before = first.setdefault(id, (split, record))
                if before[0] != split and id not in told:
                    told.add(id)
                    where = f"{Path(before[1].file).name}, {before[1].line}"
                    check.problems.add(
                        record.file, record.line, f"{id} is in the {before[0]} split too ({where})"
                    )
    for instances in splits.values():
        seen: dict[str, str] = {}
        for i, record in zip(instances, _records(instances), strict=True):
            if isinstance(i, TaggedSentence) or not i.id:
                continue
            if (line := seen.setdefault(i.id, record.line)) != record.line:
                check.oddities.add(record.file, record.line, f"the id {i.id} stands at {line} too")


def _counts_rows(instances: Sequence[Any]) -> bool:
    """Whether ids only number the rows, which says nothing across files (GAD): nearly each follows the one before."""
    ids = [getattr(i, "id", "") for i in instances]
    if not ids or ids[0] not in ("0", "1"):
        return False
    numbers = [int(id) if id.isdecimal() else -1 for id in ids]
    follow = sum(b == a + 1 for a, b in itertools.pairwise(numbers))
    return follow >= 0.9 * (len(ids) - 1)


def _check_texts(splits: Mapping[str, Sequence[Any]], check: Check) -> None:
    """No text of six words or more in two splits; no quote that is left open; no instance without a text; no sentence
    that looks like several."""
    seen: dict[tuple[str, ...], tuple[str, _Record]] = {}
    for split, instances in splits.items():
        for i, record in zip(instances, _records(instances), strict=True):
            pieces = i.words if isinstance(i, TaggedSentence) else record.texts
            for piece in pieces:
                if _in_rows(i) and piece.count('"') % 2 and len(piece) > 1:
                    check.oddities.add(
                        record.file, record.line, "has a quote that is not closed; read as it stands", piece
                    )
            if not record.texts[0].strip():
                check.oddities.add(record.file, record.line, "has no text")
            if isinstance(i, TaggedSentence) and _in_rows(i) and len(i.words) > LONGEST_SENTENCE:
                reason = f"a sentence of {len(i.words):,} words; are blank lines between sentences missing?"
                check.oddities.add(record.file, record.line, reason)
            before = seen.setdefault(record.texts, (split, record))
            if before[0] != split and len(record.texts[0].split()) > 5:
                where = f"{Path(before[1].file).name}, {before[1].line}"
                check.oddities.add(
                    record.file, record.line, f"the same text is in the {before[0]} split ({where})"
                )


def _check_mentions(
    splits: Mapping[str, Sequence[Any]], found: Mapping[str, Sequence[Path]], check: Check
) -> None:
    """Mentions of documents that no tags can say: they count as missed whatever is predicted."""
    for split, instances in splits.items():
        if isinstance(instances, TaggedDocuments):
            for mention in instances.untaggable:
                value = f"{mention.type} {mention.text!r} at {mention.start}-{mention.end}"
                place = f"document {mention.document}"
                check.oddities.add(found[split][0], place, f"the mention {mention.reason}", value)


def _in_rows(instance: Any) -> bool:
    """Whether the file is one that a reader of CSV might be set upon."""
    json = files.strip_compression(instance.file).endswith((".json", ".jsonl"))
    return isinstance(instance.line, int) and not json


def _check_tags(dataset: Tagging, splits: Mapping[str, Sequence[Any]], check: Check) -> None:
    """Only types that are known; mentions begin with `B`."""
    known: dict[str, str] = dict.fromkeys(dataset.types, "")
    if not known and splits.get("train"):
        known = {split_tag(t)[1]: "" for s in splits["train"] for t in set(s.tags) if t != OUTSIDE}
    bare = all(split_tag(t)[1] == "" for ss in splits.values() for s in ss for t in set(s.tags))
    reported: defaultdict[tuple[str, str], int] = defaultdict(int)
    for instances in splits.values():
        begins = any(tag.startswith("B") for s in instances for tag in s.tags)
        for sentence in instances:
            previous = OUTSIDE
            for word, tag in enumerate(sentence.tags):
                prefix, type = split_tag(tag)
                where = sentence.place(word)
                if tag != OUTSIDE and known and type not in known and not bare:
                    reported[sentence.file, tag] += 1
                    if reported[sentence.file, tag] <= 5:
                        valid = ", ".join(sorted(known))
                        check.problems.add(
                            sentence.file, where, f"the type of the tag is unknown; valid: {valid}", tag
                        )
                broken = prefix in ("I", "E") and (previous == OUTSIDE or split_tag(previous)[1] != type)
                if begins and broken:
                    check.oddities.add(
                        sentence.file, where, f"{tag} follows {previous}; read as the beginning of a mention"
                    )
                previous = tag
    for (file, tag), count in reported.items():
        if count > 5:
            check.problems.add(file, "file", f"the unknown tag {tag} stands at {count - 5} more places")
