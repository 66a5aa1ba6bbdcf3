"""How uneven labels are, and what cutting words into pieces makes of them (BioMegatron: Shin et al., 2020)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from biosmith.tasks.labels import OUTSIDE, read_spans, split_tag


def label_bias(labels: Iterable[str]) -> float:
    """Instances of all other labels over those of the commonest one (Table 9: NER, CLS); 0 for no instance.

    >>> label_bias(["false", "false", "false", "false", "CPR:4"])
    0.25
    """
    counts = Counter(labels)
    return (counts.total() - max(counts.values())) / max(counts.values()) if counts else 0.0


def tag_bias(tags: Iterable[Sequence[str]]) -> float:
    """Words inside mentions over words outside (Table 9: NER, the ratio of I and O tags)."""
    return label_bias("I" if tag != OUTSIDE else OUTSIDE for sentence in tags for tag in sentence)


def answer_bias(answers: Iterable[str]) -> float:
    """How often the rarest answer is repeated over how often the commonest one is (Table 9: QA); 0 for no answer."""
    counts = Counter(answers)
    return min(counts.values()) / max(counts.values()) if counts else 0.0


@dataclass(frozen=True)
class LabellingStatistics:
    """Labels of a data set under a tokenizer.

    Attributes:
        words, pieces: of all sentences.
        mentions, mention_words, mention_pieces: of the gold mentions.
        broken_mentions: mentions with a word that is cut into pieces.
        whole_word: tag -> how many tokens carry it if the first piece of a word is labelled and the others are not.
        sub_tokens: the same if every piece is labelled; pieces after the first of a `B` word are `I`.
    """

    words: int = 0
    pieces: int = 0
    mentions: int = 0
    mention_words: int = 0
    mention_pieces: int = 0
    broken_mentions: int = 0
    whole_word: Mapping[str, int] = field(default_factory=dict)
    sub_tokens: Mapping[str, int] = field(default_factory=dict)

    @property
    def broken_rate(self) -> float:
        """Share of the mentions that are cut (Table 4)."""
        return self.broken_mentions / self.mentions if self.mentions else 0.0

    @property
    def pieces_per_word(self) -> float:
        """Mean number of pieces of a word inside mentions."""
        return self.mention_pieces / self.mention_words if self.mention_words else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `bias` is labelled tokens over the others under each way to label."""
        return {
            **{key: getattr(self, key) for key in ("words", "pieces", "mentions", "broken_mentions")},
            "broken_rate": self.broken_rate,
            "pieces_per_word": self.pieces_per_word,
            "whole_word": {"labels": dict(self.whole_word), "bias": _bias(self.whole_word)},
            "sub_tokens": {"labels": dict(self.sub_tokens), "bias": _bias(self.sub_tokens)},
        }


def _bias(labels: Mapping[str, int]) -> float:
    outside = labels.get(OUTSIDE, 0)
    return (sum(labels.values()) - outside) / outside if outside else 0.0


def labelling_statistics(
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]],
    count_pieces: Callable[[Sequence[str]], Sequence[int]],
) -> LabellingStatistics:
    """Whole-word against sub-token labelling of tagged sentences (Table 4, and the choice of section 5.1).

    Args:
        sentences: words and their tags.
        count_pieces: of the words of a sentence, into how many pieces the vocabulary cuts each.
    """
    whole: Counter[str] = Counter()
    sub: Counter[str] = Counter()
    words = pieces = mentions = mention_words = mention_pieces = broken = 0
    for of_sentence, tags in sentences:
        cut = list(count_pieces(of_sentence))
        if not len(cut) == len(tags) == len(of_sentence):
            raise ValueError(f"{len(of_sentence)} words, {len(tags)} tags, {len(cut)} numbers of pieces")
        words += len(cut)
        pieces += sum(cut)
        for tag, count in zip(tags, cut, strict=True):
            whole[tag] += 1
            sub[tag] += 1
            if count > 1:
                sub[_inside(tag)] += count - 1
        for start, end, _ in read_spans(tags):
            mentions += 1
            mention_words += end - start
            mention_pieces += sum(cut[start:end])
            broken += max(cut[start:end]) > 1
    return LabellingStatistics(
        words, pieces, mentions, mention_words, mention_pieces, broken, dict(whole), dict(sub)
    )


def _inside(tag: str) -> str:
    if tag == OUTSIDE:
        return tag
    type = split_tag(tag)[1]
    return f"I-{type}" if type else "I"
