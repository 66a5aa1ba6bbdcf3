"""Corpora that mark different types: what is joined, what O means, and what is scored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from biosmith.errors import BadInput, UsageError
from biosmith.tasks import ner
from biosmith.tasks.joining import join, only_types, parse_names, rename_types, right_answers, unmarked_sets
from biosmith.tasks.labels import LabelSet
from biosmith.tasks.network import tagging_loss
from biosmith.tasks.settings import TaggingSettings
from biosmith.tasks.tagged import TaggedData, TaggedSentence
from biosmith.tasks.tagging import check_tags


def corpus(*sentences: str) -> TaggedData:
    """Sentences as "word/tag word word/tag"; a word without a tag is O."""
    made = []
    for sentence in sentences:
        pairs = [word.partition("/")[::2] for word in sentence.split()]
        made.append(TaggedSentence(tuple(w for w, _ in pairs), tuple(t or "O" for _, t in pairs), "x", 1))
    return TaggedData(made, [])


DISEASES = corpus("aspirin cures gout/B-Disease", "no disease here")
CHEMICALS = corpus("aspirin/B-Chemical cures gout", "heparin/B-Chemical helps")


def test_sentences_of_the_same_words_become_one_with_the_mentions_of_both() -> None:
    first, second, third = join([DISEASES, CHEMICALS])
    assert (first.tags, first.unmarked) == (("B-Chemical", "O", "B-Disease"), ())
    assert (second.words[0], second.unmarked) == ("no", ("Chemical",))
    assert (third.words[0], third.unmarked) == ("heparin", ("Disease",))


def test_overlapping_mentions_of_two_corpora_stay_in_two_sentences() -> None:
    """Tags cannot say both, and neither is wrong."""
    whole = corpus("lead/B-Disease poisoning/I-Disease")
    part = corpus("lead/B-Chemical poisoning")
    assert [(s.tags, s.unmarked) for s in join([whole, part])] == [
        (("B-Disease", "I-Disease"), ("Chemical",)),
        (("B-Chemical", "O"), ("Disease",)),
    ]


def test_a_sentence_twice_in_one_corpus_stays_twice() -> None:
    """A corpus weighs its sentences itself."""
    twice = corpus("gout/B-Disease", "gout/B-Disease")
    assert len(join([twice, CHEMICALS])) == 4


def test_beside_o_the_labels_of_unmarked_types_are_right() -> None:
    labels = LabelSet.of_types(["Chemical", "Disease"])
    assert labels.labels == ("O", "B-Chemical", "I-Chemical", "B-Disease", "I-Disease")
    unmarked = unmarked_sets(join([DISEASES, CHEMICALS]))
    assert unmarked == [("Chemical",), ("Disease",)]
    right = right_answers(unmarked, labels)
    assert right is not None
    np.testing.assert_array_equal(right[:5], np.eye(5, dtype=bool))
    assert right[5].tolist() == [True, True, True, False, False]
    assert right[6].tolist() == [True, False, False, True, True]
    assert right_answers([], labels) is None


def test_the_loss_is_the_probability_of_all_right_labels() -> None:
    """By hand: minus the logarithm of p(O) + p(B-Chemical) + p(I-Chemical) for one word, of p(B-Disease) for another."""

    class Words:
        target = torch.tensor([5, 3, -100])

    right = torch.from_numpy(right_answers([("Chemical",)], LabelSet.of_types(["Chemical", "Disease"])))
    scores = torch.tensor([[1.0, 2.0, 0.5, -1.0, 0.0], [0.3, 0.1, 0.0, 1.5, 0.2], [9.0, 0, 0, 0, 0]])
    p = scores.softmax(-1)
    expected = -(p[0, :3].sum().log() + p[1, 3].log()) / 2
    found = tagging_loss(scores, Words(), None, right)  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected)


def test_one_tagger_learns_types_from_corpora_that_mark_one_each(
    tiny_model: Path, tagging_data: Path, tmp_path: Path
) -> None:
    """Each corpus marks one type and mentions both; plain O would teach that the other type does not exist."""
    for name in ("train", "devel"):
        whole = (tagging_data / f"{name}.tsv").read_text(encoding="utf-8")
        for folder, other in (("diseases", "Chemical"), ("chemicals", "Disease")):
            (tmp_path / folder).mkdir(exist_ok=True)
            lines = [x.split("\t")[0] + "\tO" if x.endswith(other) else x for x in whole.splitlines()]
            if folder == "chemicals":  # other sentences, so that nothing is marked twice
                lines = [x.replace("Patients", "People").replace("mice", "rats") for x in lines]
            (tmp_path / folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = TaggingSettings(learning_rate=1e-2, batch_size=4, epochs=12, keep="last")
    folders = [tmp_path / "diseases", tmp_path / "chemicals"]
    report = ner.finetune(tiny_model, folders, tmp_path / "tuned", settings, names={"Chemical": "Drug"})
    assert report["dev_value"] > 0.9
    # The types that a split does not mark are found, and not counted as wrong.
    scored = ner.evaluate(tmp_path / "tuned", folders[0], "dev")
    assert scored.conll.overall.f1 > 0.9 and scored.not_counted > 3
    drugs = ner.evaluate(tmp_path / "tuned", folders[1], "dev", names={"Chemical": "Drug"})
    assert drugs.conll.overall.f1 > 0.9


def test_a_crf_is_refused_because_it_scores_whole_sentences(tiny_model: Path, tmp_path: Path) -> None:
    files = []
    for name, text in (("a", "gout\tB-Disease\n"), ("b", "aspirin\tB-Chemical\n")):
        files.append(tmp_path / f"{name}.tsv")
        files[-1].write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="head=crf needs corpora that mark the same types"):
        ner.finetune(tiny_model, files, tmp_path / "out", TaggingSettings(head="crf"))


def test_types_are_renamed_and_filtered(tmp_path: Path) -> None:
    renamed = rename_types(DISEASES, {"Disease": "Illness"})
    assert renamed.sentences[0].tags[-1] == "B-Illness"
    assert rename_types(DISEASES, {}) is DISEASES
    assert only_types(["B-A", "I-A", "O", "B-B"], ["B"]) == ["O", "O", "O", "B-B"]
    assert parse_names(("GENE=Gene",)) == {"GENE": "Gene"}
    with pytest.raises(UsageError, match="OLD=NEW"):
        parse_names(("GENE",))


def test_a_name_for_a_type_that_the_data_does_not_have_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    # Such as for want of a capital; the types would not be brought together, and nobody would know.
    file = tmp_path / "a.tsv"
    file.write_text("gout\tB-Disease\naspirin\tB-Chemical\n", encoding="utf-8")
    names = {"disease": "Illness", "Chemical": "Drug"}
    with pytest.raises(UsageError, match="no type 'disease' can be renamed; the data has: Chemical, Disease"):
        ner.finetune(tiny_model, file, tmp_path / "out", names=names)


def test_an_unknown_tag_is_named_beside_the_tags_of_its_own_file() -> None:
    known = TaggedSentence(("gout",), ("B-Disease",), "diseases", 1)
    unknown = TaggedSentence(("BRCA1",), ("B-Gene",), "genes", 1)
    with pytest.raises(BadInput, match=r"genes, line 1: .* \(this file has B-Gene\)"):
        check_tags([known, unknown], LabelSet.of_types(["Disease"]))
