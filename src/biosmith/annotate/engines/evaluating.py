"""The score of a tagger that runs on a CPU engine, under the protocol of `tasks.ner.evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from biosmith.annotate.engines import Settings, open_readers
from biosmith.annotate.engines.quantization import ExampleEngine
from biosmith.annotate.pieces import CutsWords
from biosmith.tasks import ner
from biosmith.tasks.inputs import Ids, InputTransform, Pieces
from biosmith.tasks.tagging import Tagger


class CutterTransform:
    """A cutter in the form that `Tagger` takes its tokenizer in."""

    def __init__(self, cutter: CutsWords) -> None:
        self.cutter, self.frame = cutter, len(cutter.before) + len(cutter.after)
        self.before, self.after, self.digest = cutter.before, cutter.after, cutter.digest

    def cut_words(self, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
        """See `InputTransform`."""
        ids, begins = self.cutter.cut([word for sentence in sentences for word in sentence])
        cut, at = [], 0
        for sentence in sentences:
            edges = begins[at : at + len(sentence) + 1]
            places = (edges - edges[0]).astype(np.int32)
            cut.append(Pieces(ids[edges[0] : edges[-1]], places[:-1], places[1:]))
            at += len(sentence)
        return cut

    def enclose(self, ids: Ids) -> Ids:
        """See `InputTransform`."""
        return np.concatenate([self.before, ids, self.after])


def evaluate(
    tuned: Path,
    data: Path,
    split: str,
    settings: Settings | None = None,
    names: Mapping[str, str] | None = None,
    predictions: Path | None = None,
) -> ner.NerReport:
    """Score the tagger of a folder on the engine it was made for, or the one that the settings name.

    `predictions` is a file for the predicted tags (see `tasks.ner.evaluate`).

    Raises:
        UsageError, BadInput: as `tasks.ner.evaluate` and `open_readers`.
    """
    return ner.score_split(_open(tuned, settings), tuned, data, split, names or {}, predictions)


def evaluate_words(
    tuned: Path,
    data: Path,
    split: str,
    settings: Settings | None = None,
    names: Mapping[str, str] | None = None,
    predictions: Path | None = None,
) -> dict[str, Any]:
    """As `evaluate`, by word: see `tasks.ner.evaluate_words`."""
    return ner.score_words_of_split(_open(tuned, settings), data, split, names or {}, predictions)


def _open(tuned: Path, settings: Settings | None) -> Tagger:
    (reader,) = open_readers({tuned.name: tuned}, settings or Settings())
    (head,) = reader.heads
    return Tagger(
        cast(InputTransform, CutterTransform(reader.cutter)),
        head.label_set,
        ExampleEngine(reader.engine),
        reader.max_length,
        reader.stride,
        head.chain,
    )
