"""Scores of labels: one of several, several at once, yes or no."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from biosmith.tasks.metrics.counts import Counts


def micro_f1(gold: Sequence[str], predicted: Sequence[str], negative: Collection[str]) -> Counts:
    """Micro precision, recall and F1 over all labels but the negative ones (ChemProt, DDI; BLUE's `eval_rel.py`).

    A negative that is predicted as such counts nowhere; a negative predicted as a relation is wrong, a relation
    predicted as a negative is missed, and one relation for another is both.

    >>> micro_f1(["CPR:3", "false"], ["CPR:3", "false"], {"false"})
    Counts(found=1, predicted=1, gold=1)
    """
    _same_length(gold, predicted)
    return Counts(
        found=sum(g == p and g not in negative for g, p in zip(gold, predicted, strict=True)),
        predicted=sum(p not in negative for p in predicted),
        gold=sum(g not in negative for g in gold),
    )


def label_counts(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, Counts]:
    """Counts of each label, for tables by label."""
    _same_length(gold, predicted)
    return {
        label: Counts(
            sum(g == p == label for g, p in zip(gold, predicted, strict=True)),
            sum(p == label for p in predicted),
            sum(g == label for g in gold),
        )
        for label in sorted({*gold, *predicted})
    }


def macro_f1(gold: Sequence[str], predicted: Sequence[str], labels: Collection[str]) -> float:
    """Mean F1 of the labels, those that do not occur with 0 (ChemProt in Bioformer without `false`; SciCite).

    >>> macro_f1(["a", "b", "b"], ["a", "a", "b"], ["a", "b"]) == (2 / 3 + 2 / 3) / 2
    True
    """
    counts = label_counts(gold, predicted)
    return sum(counts[x].f1 for x in labels if x in counts) / len(labels) if labels else 0.0


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Share of instances whose label is right (PubMedQA, BioASQ yes/no)."""
    _same_length(gold, predicted)
    return sum(g == p for g, p in zip(gold, predicted, strict=True)) / len(gold) if gold else 0.0


def document_micro_f1(
    gold: Mapping[str, Collection[str]], predicted: Mapping[str, Collection[str]]
) -> Counts:
    """Micro F1 over the labels of documents (HoC): every document counts, those without a label too.

    Args:
        gold, predicted: labels of each document.

    Raises:
        ValueError: the two name different documents.
    """
    if gold.keys() != predicted.keys():
        raise ValueError(f"documents differ: {sorted(gold.keys() ^ predicted.keys())[:3]}")
    return sum(
        (
            Counts(len(set(gold[d]) & set(predicted[d])), len(set(predicted[d])), len(set(gold[d])))
            for d in gold
        ),
        Counts(),
    )


def labels_of_documents(documents: Iterable[str], labels: Iterable[Collection[str]]) -> dict[str, set[str]]:
    """Labels of documents from those of their sentences: a document has a label if any of its sentences has it."""
    found: dict[str, set[str]] = {}
    for document, of_sentence in zip(documents, labels, strict=True):
        found.setdefault(document, set()).update(of_sentence)
    return found


def _same_length(gold: Sequence[object], predicted: Sequence[object]) -> None:
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold labels, {len(predicted)} predicted")
