"""TransformInput of whole texts: single texts, pairs and relations as `Example`s, and what did not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biosmith.tasks.inputs import Example, Ids, InputTransform, TextPieces
from biosmith.tasks.instances import Instance
from biosmith.tasks.layout import IGNORED
from biosmith.tasks.relations import Place, present
from biosmith.tasks.sequence_network import LONGEST_MENTION, PICKS
from biosmith.tasks.settings import RelationSettings

NO_WORDS = np.zeros(0, np.int32)


@dataclass(frozen=True)
class TextExamples:
    """Examples in the order of their instances, and whether each was read in full."""

    examples: list[Example]
    truncated: list[bool]


def text_examples(
    instances: Sequence[Instance],
    transform: InputTransform,
    max_length: int,
    *,
    pairs: bool | None = None,
    shorten: str = "longest",
) -> TextExamples:
    """Whole texts as `[CLS] text [SEP]`, pairs as `[CLS] text [SEP] pair [SEP]`, without targets.

    Args:
        instances: their `pair` is the second text.
        transform: tokenizer and frame.
        max_length: pieces, special tokens included.
        pairs: whether all are pairs; None: those whose second text is not empty.
        shorten: of a pair that does not fit, the "longest" text loses its end first, or only the "second" (the first
            one only where it does not fit by itself).
    """
    firsts = transform.cut_texts([i.text for i in instances])
    with_pair = [bool(i.pair) if pairs is None else pairs for i in instances]
    seconds = transform.cut_texts([i.pair for i in instances])
    made: list[Example] = []
    truncated: list[bool] = []
    for source, (first, second, paired) in enumerate(zip(firsts, seconds, with_pair, strict=True)):
        types: Ids | None = None
        if not paired:
            room = max_length - transform.frame
            ids = transform.enclose(first.ids[:room])
            truncated.append(len(first.ids) > room)
        else:
            room = max_length - transform.pair_frame.size
            a, b = shortened(len(first.ids), len(second.ids), room, shorten)
            ids, types = transform.pair_frame.join(first.ids[:a], second.ids[:b])
            truncated.append(a < len(first.ids) or b < len(second.ids))
        made.append(Example(ids, np.zeros(1, np.int32), np.zeros(0), source, NO_WORDS, types))
    return TextExamples(made, truncated)


def shortened(first: int, second: int, room: int, shorten: str) -> tuple[int, int]:
    """How many pieces of two texts are kept.

    >>> shortened(10, 30, 20, "longest"), shortened(10, 30, 20, "second")
    ((10, 10), (10, 10))
    >>> shortened(30, 10, 20, "longest"), shortened(15, 30, 20, "second")
    ((10, 10), (15, 5))
    """
    if first + second <= room:
        return first, second
    if shorten == "second":
        kept = min(first, room)
        return kept, min(second, room - kept)
    # Both lose their ends until they are equally long, as if one piece after the other went from the longer one.
    kept = max(min(first, room // 2), room - second)
    return kept, min(second, room - kept)


def relation_examples(
    instances: Sequence[Instance], transform: InputTransform, max_length: int, settings: RelationSettings
) -> TextExamples:
    """Relations under the settings, without targets; a mention behind the end of what fits is read at that end.

    Raises:
        UsageError, BadInput: see `relations.present`.
    """
    presented = [present(instance, settings) for instance in instances]
    made: list[Example] = []
    truncated: list[bool] = []
    room = max_length - transform.frame
    for source, (what, cut) in enumerate(
        zip(presented, transform.cut_texts([p.text for p in presented]), strict=True)
    ):
        ids = transform.enclose(cut.ids[:room])
        places = {"mentions": what.mentions, "starts": what.starts}.get(settings.features, ())
        ranges = [piece_range(cut, place) for place in places]
        if settings.features == "starts":
            picks = [first for first, _ in ranges]
        else:
            picks = [end for a, b in ranges for end in (a, min(b, a + LONGEST_MENTION - 1))]
        shift = len(transform.before)
        last = max(0, len(ids) - len(transform.after) - 1)
        positions = np.minimum(np.array(picks, np.int32) + shift, last) if picks else np.zeros(1, np.int32)
        made.append(Example(ids, positions.astype(np.int32), np.zeros(0), source, NO_WORDS))
        truncated.append(len(cut.ids) > room)
    return TextExamples(made, truncated)


def piece_range(cut: TextPieces, place: Place) -> tuple[int, int]:
    """First and last piece that share a character with a place of the text; the nearest one if none does."""
    touching = np.flatnonzero((cut.ends > place[0]) & (cut.starts < place[1]))
    if len(touching):
        return int(touching[0]), int(touching[-1])
    nearest = int(np.searchsorted(cut.ends, place[0], side="right"))
    nearest = min(nearest, max(0, len(cut.ids) - 1))
    return nearest, nearest


def with_target(example: Example, target: Any, kind: Any, features: str) -> Example:
    """The example with the right answer at its first pick, and -100 at its other ones."""
    rows: NDArray[Any] = np.full((PICKS[features], *np.shape(target)), IGNORED, dtype=kind)
    rows[0] = target
    return Example(example.ids, example.picks, rows, example.source, example.words, example.types)
