"""One training set from corpora that mark different types of mentions.

A corpus of diseases says nothing of the chemicals in its sentences: O means "no disease" there. Each sentence carries the
types that nobody looked for, and where its tag is O their labels count as right too: training maximises the probability
of all labels that agree with what was marked (Greenberg et al., 2018, "Marginal likelihood training of BiLSTM-CRF for
biomedical named entity recognition from disjoint label sets", without the CRF).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from biosmith.errors import UsageError
from biosmith.tasks.labels import OUTSIDE, LabelSet, Span, read_spans, split_tag, write_tags
from biosmith.tasks.tagged import TaggedData, TaggedSentence


def marked_types(sentences: Sequence[TaggedSentence]) -> list[str]:
    """The types of the mentions in these sentences, sorted."""
    return sorted({split_tag(tag)[1] for s in sentences for tag in s.tags if tag != OUTSIDE})


def rename_types(data: TaggedData, names: Mapping[str, str]) -> TaggedData:
    """The same data with other names for types of mentions; types that are not named keep theirs."""
    if not names:
        return data

    def tag(given: str) -> str:
        prefix, dash, type = given.partition("-")
        return f"{prefix}{dash}{names.get(type, type)}"

    sentences = [replace(s, tags=tuple(map(tag, s.tags))) for s in data.sentences]
    gold = data.gold
    if gold is not None:
        gold = [[span._replace(type=names.get(span.type, span.type)) for span in spans] for spans in gold]
    return replace(data, sentences=sentences, gold=gold)


def parse_names(pairs: Sequence[str]) -> dict[str, str]:
    """OLD=NEW, ... as a mapping. Raises `UsageError` for anything else."""
    names = dict(pair.partition("=")[::2] for pair in pairs)
    for old, new in names.items():
        if not old or not new:
            raise UsageError(f"types are renamed as OLD=NEW, such as GENE=Gene, not {old}={new}")
    return names


def join(corpora: Sequence[TaggedData]) -> list[TaggedSentence]:
    """The sentences of all corpora, each with the types that its corpus does not mark.

    Sentences of the same words in several corpora (BC5CDR's are given once with their chemicals and once with their
    diseases) become one with the mentions of all, unless these overlap.
    """
    marked = [set(marked_types(corpus.sentences)) for corpus in corpora]
    joined: dict[tuple[str, ...], list[tuple[TaggedSentence, set[str]]]] = {}
    for corpus, types in zip(corpora, marked, strict=True):
        for sentence in corpus.sentences:
            alike = joined.setdefault(sentence.words, [])
            for i, (other, known) in enumerate(alike):
                if types.isdisjoint(known) and (tags := _both(other, sentence)) is not None:
                    alike[i] = (replace(other, tags=tags), known | types)
                    break
            else:
                alike.append((sentence, set(types)))
    everything = set().union(*marked)
    return [
        replace(sentence, unmarked=tuple(sorted(everything - known)))
        for alike in joined.values()
        for sentence, known in alike
    ]


def _both(a: TaggedSentence, b: TaggedSentence) -> tuple[str, ...] | None:
    """The mentions of two sentences of the same words as tags; None if they overlap."""
    spans: list[Span] = sorted({*read_spans(a.tags), *read_spans(b.tags)})
    if any(y.start < x.end for x, y in itertools.pairwise(spans)):
        return None
    return tuple(write_tags(spans, len(a.words)))


def only_types(tags: Sequence[str], types: Sequence[str]) -> list[str]:
    """Tags without the mentions of other types."""
    return write_tags([span for span in read_spans(tags) if span.type in types], len(tags))


def unmarked_sets(sentences: Sequence[TaggedSentence]) -> list[tuple[str, ...]]:
    """The different sets of unmarked types, sorted; target K + i stands for an O beside the i-th (K labels)."""
    return sorted({s.unmarked for s in sentences if s.unmarked})


def right_answers(unmarked: Sequence[tuple[str, ...]], label_set: LabelSet) -> NDArray[np.bool_] | None:
    """Which labels [targets, K] are right for each target: itself, and beside O those of unmarked types.

    None where every corpus marks every type.
    """
    if not unmarked:
        return None
    types = [split_tag(label)[1] for label in label_set.labels]
    outside = label_set.index()[OUTSIDE]
    rows = [[i == outside or type in silent for i, type in enumerate(types)] for silent in unmarked]
    return np.concatenate([np.eye(len(types), dtype=bool), np.array(rows)])
