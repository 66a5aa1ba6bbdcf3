"""Sentences of a corpus in two vocabularies at once, for models that read in one and write in the other.

A sentence store is a folder:

    manifest.json                        kind "sentences"
    reading.tokens, writing.tokens       pieces of all sentences, end to end, without special tokens
    reading.ends.npy, writing.ends.npy   int64, where each sentence ends
    documents.npy                        int32, the number of the document each sentence is from
    reading/, writing/                   the two tokenizers

A sentence that is empty in one of the vocabularies, or longer than asked for, is left out and counted.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biosmith.artefact import (
    Manifest,
    describe_files,
    describe_input,
    folder_by_rename,
    load_manifest,
    require_new_folder,
)
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.models.vae_folder import encode_texts, load_tokenizer, vocabulary_digest
from biosmith.processes import map_in_order
from biosmith.progress import progress
from biosmith.text.formats.parquet import count_by_row_group, iterate_texts
from biosmith.text.sentences import split

SIDES = READING, WRITING = "reading", "writing"
EMPTY, LONG, WORDY = "empty", "too many pieces", "too many words"
# What OPTIMUS adds to a vocabulary that lacks the role.
ROLES = {"pad_token": "<PAD>", "bos_token": "<BOS>", "eos_token": "<EOS>"}
# What a vocabulary without tokenizer_config.json is known by: nothing says there which piece has which role.
BERT_ROLES = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}


@dataclass(frozen=True)
class SentenceRules:
    """Which sentences are kept.

    Attributes:
        most_words: words between white space (OPTIMUS: 64).
        most_pieces: pieces in either vocabulary; special tokens come on top.
        least_words: shorter ones are no sentences: headings, labels.
    """

    most_words: int = 64
    most_pieces: int = 126
    least_words: int = 4

    def __post_init__(self) -> None:
        for name in ("most_words", "most_pieces", "least_words"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.least_words > self.most_words:
            raise UsageError(f"least_words {self.least_words} is more than most_words {self.most_words}")


@dataclass(frozen=True)
class Special:
    """Numbers of special tokens: a sentence is `begin`, its pieces, `end`; `pad` fills up."""

    pad: int
    begin: int
    end: int


class SentenceStore:
    """See the module. `open` it; arrays are mapped, not read."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._lengths: dict[str, NDArray[np.int64]] = {}
        self.ends = {side: np.load(folder / f"{side}.ends.npy", mmap_mode="r") for side in SIDES}
        self.pieces = {
            side: np.memmap(folder / f"{side}.tokens", dtype=manifest.counts[side]["dtype"], mode="r")
            if len(self.ends[side])
            else np.zeros(0, np.uint16)
            for side in SIDES
        }
        self.documents: NDArray[np.int32] = np.load(folder / "documents.npy", mmap_mode="r")

    @classmethod
    def open(cls, folder: Path) -> SentenceStore:
        """Raises `UsageError` where the folder is no sentence store, `BadInput` where a file is missing or cut off."""
        manifest = load_manifest(folder, "sentences")
        for name, described in manifest.files.items():
            path = folder / name
            if not path.is_file():
                raise BadInput(path, "is missing")
            if path.stat().st_size != described["bytes"]:
                raise BadInput(
                    path, f"has {path.stat().st_size:,} bytes, the manifest says {described['bytes']:,}"
                )
        return cls(folder, manifest)

    def __len__(self) -> int:
        return len(self.documents)

    def vocabulary(self, side: str) -> Mapping[str, Any]:
        """`size`, `digest`, `pad`, `begin`, `end` of one side's vocabulary."""
        counts: Mapping[str, Any] = self.manifest.counts[side]
        return counts

    def special(self, side: str) -> Special:
        """Special tokens of one side."""
        known = self.vocabulary(side)
        return Special(known["pad"], known["begin"], known["end"])

    def lengths(self, side: str) -> NDArray[np.int64]:
        """Pieces of each sentence, special tokens not counted."""
        if side not in self._lengths:
            self._lengths[side] = np.diff(self.ends[side], prepend=0)
        return self._lengths[side]

    def gather(self, side: str, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pieces of some sentences end to end, and the length of each."""
        ends = self.ends[side][index]
        starts = np.where(index > 0, self.ends[side][np.maximum(index - 1, 0)], 0)
        lengths = ends - starts
        offsets = np.cumsum(lengths) - lengths
        places = np.arange(int(lengths.sum())) - np.repeat(offsets - starts, lengths)
        return self.pieces[side][places].astype(np.int64), lengths

    def pieces_of(self, side: str, number: int) -> list[int]:
        """Pieces of one sentence."""
        found: list[int] = self.gather(side, np.array([number]))[0].tolist()
        return found


@dataclass(frozen=True)
class BuiltSentences:
    """What `build_sentences` made; `filtered` counts what was left out, by reason."""

    sentences: int
    documents: int
    reading_pieces: int
    writing_pieces: int
    filtered: Mapping[str, int]


def build_sentences(
    corpus: Path,
    reading: Path,
    writing: Path,
    out: Path,
    *,
    rules: SentenceRules | None = None,
    most: int | None = None,
    workers: int = 1,
) -> BuiltSentences:
    """Cut a corpus into sentences and write them in two vocabularies.

    The store depends on the corpus, the vocabularies and the rules alone, not on the number of workers.

    Args:
        corpus: a corpus folder.
        reading: tokenizer folder of the model that reads.
        writing: tokenizer folder of the model that writes; roles it lacks are added as OPTIMUS adds them.
        out: must not exist, or be empty.
        rules: which sentences are kept.
        most: the first so many sentences; None takes all. What the rules leave out is counted a little further, as the
            corpus is read in pieces.
        workers: processes.

    Raises:
        UsageError: a folder is none of its kind, `out` holds something, or `most` is less than 1.
        BiosmithError: no sentence is left.
    """
    if most is not None and most < 1:
        raise UsageError(f"most must be at least 1, not {most}")
    require_new_folder(out)
    rules = rules or SentenceRules()
    load_manifest(corpus, "corpus")
    parts = sorted(corpus.glob("part-*.parquet"))
    tasks = [(part, group) for part in parts for group in range(len(count_by_row_group(part)))]
    numbers = [count for part in parts for count in count_by_row_group(part)]
    with folder_by_rename(out) as folder:
        marks = {
            side: dress_tokenizer(path, folder / side)
            for side, path in ((READING, reading), (WRITING, writing))
        }
        filtered: Counter[str] = Counter()
        ends: dict[str, list[NDArray[np.int64]]] = {side: [] for side in SIDES}
        documents: list[NDArray[np.int32]] = []
        totals, first, made = dict.fromkeys(SIDES, 0), 0, 0
        streams = {side: (folder / f"{side}.tokens").open("wb") for side in SIDES}
        try:
            with progress("Sentences", sum(numbers), "documents") as advance:
                results = map_in_order(
                    _cut, tasks, workers, initializer=_begin, arguments=(folder, rules, marks)
                )
                for count, result in zip(numbers, results, strict=True):
                    filtered.update(result.filtered)
                    if most is not None and made + len(result.documents) >= most:
                        result = result.first(most - made)
                        count = int(result.documents[-1]) + 1
                    documents.append(result.documents + first)
                    for side in SIDES:
                        streams[side].write(result.pieces[side].tobytes())
                        ends[side].append(np.cumsum(result.lengths[side]) + totals[side])
                        totals[side] += len(result.pieces[side])
                    first, made = first + count, made + len(result.documents)
                    advance(count)
                    if most is not None and made >= most:
                        break
        finally:
            for stream in streams.values():
                stream.close()
        if not made:
            raise BiosmithError(f"{corpus} has no sentence that the rules keep: {dict(filtered)}")
        np.save(folder / "documents.npy", np.concatenate(documents))
        for side in SIDES:
            np.save(folder / f"{side}.ends.npy", np.concatenate(ends[side]))
        counts = {"sentences": made, "documents": first, "filtered": dict(filtered)}
        counts |= {side: {**marks[side], "pieces": totals[side]} for side in SIDES}
        Manifest(
            kind="sentences",
            config=dataclasses.asdict(rules) | {"most": most},
            inputs=[describe_input(path) for path in (corpus, reading, writing)],
            files=describe_files(folder),
            counts=counts,
        ).save(folder)
    return BuiltSentences(made, first, totals[READING], totals[WRITING], dict(filtered))


def dress_tokenizer(source: Path, out: Path) -> dict[str, Any]:
    """Copy a tokenizer; roles it lacks (padding, beginning and end of a sentence) are added as OPTIMUS adds them.

    Returns `size`, `digest`, `dtype` and the numbers `pad`, `begin`, `end`. BERT's [CLS] and [SEP] begin and end, also in a
    folder that has no more than the vocabulary.

    Raises:
        UsageError: the folder holds no tokenizer.
    """
    tokenizer = load_tokenizer(source)
    if tokenizer.cls_token is None and tokenizer.get_vocab().keys() >= set(BERT_ROLES.values()):
        tokenizer.add_special_tokens(BERT_ROLES)
    roles = {
        "pad_token": tokenizer.pad_token,
        "bos_token": tokenizer.cls_token or tokenizer.bos_token,
        "eos_token": tokenizer.sep_token or tokenizer.eos_token,
    }
    # GPT-2 has one token for all three: no use to a decoder that has to know where a sentence ends.
    if None in roles.values() or len(set(roles.values())) < 3:
        tokenizer.add_special_tokens(ROLES)
        roles = dict(ROLES)
    tokenizer.save_pretrained(str(out))
    numbers = {role: int(tokenizer.convert_tokens_to_ids(token)) for role, token in roles.items()}
    size = len(tokenizer)
    return {
        "size": size,
        "digest": vocabulary_digest(out),
        "dtype": "uint16" if size <= 2**16 else "uint32",
        "pad": numbers["pad_token"],
        "begin": numbers["bos_token"],
        "end": numbers["eos_token"],
    }


@dataclass(frozen=True)
class _Cut:
    """One row group: pieces and lengths by side; documents are numbered within the group."""

    pieces: dict[str, NDArray[Any]]
    lengths: dict[str, NDArray[np.int64]]
    documents: NDArray[np.int32]
    filtered: dict[str, int]

    def first(self, count: int) -> _Cut:
        """The first so many sentences."""
        lengths = {side: found[:count] for side, found in self.lengths.items()}
        pieces = {side: found[: int(lengths[side].sum())] for side, found in self.pieces.items()}
        return dataclasses.replace(self, pieces=pieces, lengths=lengths, documents=self.documents[:count])


_STATE: dict[str, Any] = {}


def _begin(folder: Path, rules: SentenceRules, marks: Mapping[str, Mapping[str, Any]]) -> None:
    _STATE["rules"], _STATE["marks"] = rules, marks
    for side in SIDES:
        _STATE[side] = load_tokenizer(folder / side)


def _cut(task: tuple[Path, int]) -> _Cut:
    rules: SentenceRules = _STATE["rules"]
    part, group = task
    filtered: Counter[str] = Counter()
    texts: list[str] = []
    documents: list[int] = []
    number = 0
    for batch in iterate_texts(part, row_groups=[group]):
        for passages in batch:
            for passage in passages:
                for start, end in split(passage):
                    # Passages are wrapped now and then; a sentence is one line.
                    words = passage[start:end].split()
                    reason = _refusal(len(words), rules)
                    if reason is None:
                        texts.append(" ".join(words))
                        documents.append(number)
                    else:
                        filtered[reason] += 1
            number += 1
    encoded = {side: encode_texts(_STATE[side], texts) for side in SIDES}
    lengths = {side: np.array([len(ids) for ids in encoded[side]], dtype=np.int64) for side in SIDES}
    shortest = np.minimum(lengths[READING], lengths[WRITING])
    longest = np.maximum(lengths[READING], lengths[WRITING])
    keep = (shortest > 0) & (longest <= rules.most_pieces)
    filtered[EMPTY] += int((shortest == 0).sum())
    filtered[LONG] += int((longest > rules.most_pieces).sum())
    pieces = {
        side: np.concatenate(
            [np.asarray(encoded[side][i], dtype=_STATE["marks"][side]["dtype"]) for i in np.flatnonzero(keep)]
            or [np.zeros(0, dtype=_STATE["marks"][side]["dtype"])]
        )
        for side in SIDES
    }
    kept = {side: lengths[side][keep] for side in SIDES}
    found = {reason: count for reason, count in filtered.items() if count}
    return _Cut(pieces, kept, np.array(documents, dtype=np.int32)[keep], found)


def _refusal(words: int, rules: SentenceRules) -> str | None:
    if not words:
        return EMPTY
    if words < rules.least_words:
        return f"fewer than {rules.least_words} words"
    return WORDY if words > rules.most_words else None
