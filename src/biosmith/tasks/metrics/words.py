"""Word-level F1 of tags: what EBM PICO is scored by (BLURB; Gu et al., 2021, section 3.3)."""

from __future__ import annotations

from biosmith.tasks.labels import OUTSIDE, split_tag
from biosmith.tasks.metrics.counts import Counts
from biosmith.tasks.metrics.entities import EntityScore, Tags


def score_words(gold: Tags, predicted: Tags) -> EntityScore:
    """Precision, recall and F1 over words for each class; `macro_f1` is the mean over the classes of the gold tags.

    A word is right if its class is; `B` and `I` of a class are the same, and `O` is no class, so that a word outside
    both counts nowhere.

    Raises:
        ValueError: numbers of sentences or of words differ.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold sentences, {len(predicted)} predicted")
    found: dict[str, int] = {}
    named: dict[str, int] = {}
    there: dict[str, int] = {}
    for i, (g, p) in enumerate(zip(gold, predicted, strict=True)):
        if len(g) != len(p):
            raise ValueError(f"sentence {i + 1}: {len(g)} gold tags, {len(p)} predicted")
        for gold_tag, predicted_tag in zip(g, p, strict=True):
            gold_class = None if gold_tag == OUTSIDE else split_tag(gold_tag)[1]
            predicted_class = None if predicted_tag == OUTSIDE else split_tag(predicted_tag)[1]
            if gold_class is not None:
                there[gold_class] = there.get(gold_class, 0) + 1
            if predicted_class is not None:
                named[predicted_class] = named.get(predicted_class, 0) + 1
            if gold_class is not None and gold_class == predicted_class:
                found[gold_class] = found.get(gold_class, 0) + 1
    # A class that only predictions have costs precision in the micro average; the mean is over the gold's classes.
    classes = {
        name: Counts(found.get(name, 0), named.get(name, 0), count) for name, count in sorted(there.items())
    }
    stray = sum(count for name, count in named.items() if name not in there)
    return EntityScore(sum(classes.values(), Counts(predicted=stray)), classes)
