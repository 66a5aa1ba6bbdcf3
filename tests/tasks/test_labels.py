"""Tags, spans and schemes."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from biosmith.errors import BadInput, UsageError
from biosmith.tasks.labels import (
    SCHEMES,
    LabelSet,
    Span,
    guess_scheme,
    read_spans,
    read_spans_strictly,
    split_tag,
    write_tags,
)


@st.composite
def sentences_with_spans(draw: st.DrawFn) -> tuple[int, list[Span]]:
    length = draw(st.integers(0, 12))
    cuts = sorted(draw(st.sets(st.integers(0, length), max_size=8)))
    pairs = [(a, b) for a, b in itertools.pairwise(cuts) if draw(st.booleans())]
    return length, [Span(a, b, draw(st.sampled_from(["Gene", "Cell-Line"]))) for a, b in pairs]


@given(sentences_with_spans(), st.sampled_from([s for s in SCHEMES if s != "IO"]))
def test_spans_written_as_tags_are_read_back_in_both_readings(
    drawn: tuple[int, list[Span]], scheme: str
) -> None:
    length, spans = drawn
    tags = write_tags(spans, length, scheme)
    assert len(tags) == length
    assert read_spans(tags) == spans
    assert read_spans_strictly(tags, scheme) == spans


def test_io_joins_neighbours_of_one_type_because_it_marks_no_beginnings() -> None:
    tags = write_tags([Span(0, 1, "Gene"), Span(1, 3, "Gene"), Span(3, 4, "Cell")], 4, "IO")
    assert tags == ["I-Gene", "I-Gene", "I-Gene", "I-Cell"]
    assert read_spans(tags) == [Span(0, 3, "Gene"), Span(3, 4, "Cell")]


@pytest.mark.parametrize(
    ("tags", "lenient", "strict"),
    [
        # An I after O begins a mention for conlleval, and is none for a strict reader.
        (["O", "I-X", "I-X"], [Span(1, 3, "X")], []),
        # A change of type ends one mention and begins another; strictly the second has no beginning.
        (["B-X", "I-Y"], [Span(0, 1, "X"), Span(1, 2, "Y")], [Span(0, 1, "X")]),
        # Files with one type leave it out.
        (["B", "I", "O", "B"], [Span(0, 2, ""), Span(3, 4, "")], [Span(0, 2, ""), Span(3, 4, "")]),
        (["B-X", "B-X"], [Span(0, 1, "X"), Span(1, 2, "X")], [Span(0, 1, "X"), Span(1, 2, "X")]),
        ([], [], []),
    ],
)
def test_broken_tags_are_read_leniently_and_strictly(
    tags: list[str], lenient: list[Span], strict: list[Span]
) -> None:
    assert read_spans(tags) == lenient
    assert read_spans_strictly(tags, "BIO") == strict


def test_a_type_may_hold_a_dash() -> None:
    assert split_tag("B-Cell-Line") == ("B", "Cell-Line")


@pytest.mark.parametrize("tag", ["", "X-Gene", "B-", "Gene", "o"])
def test_what_is_no_tag_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="is not a tag"):
        split_tag(tag)


def test_overlapping_spans_cannot_be_written_as_tags() -> None:
    with pytest.raises(ValueError, match="overlaps"):
        write_tags([Span(0, 2, "X"), Span(1, 3, "X")], 3)


def test_labels_do_not_depend_on_the_order_of_the_types() -> None:
    assert LabelSet.of_types(["B", "A"]).labels == LabelSet.of_types(["A", "B", "A"]).labels
    assert LabelSet.of_types(["A", "B"]).labels == ("O", "B-A", "I-A", "B-B", "I-B")
    assert LabelSet.of_types([""], "IO").labels == ("O", "I")
    assert LabelSet.of_types(["A", "B"]).types == ["A", "B"]


def test_an_unknown_scheme_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="valid: IO, BIO, IOBES, BIOUL"):
        LabelSet.of_types(["A"], "BILOU")


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s != "IO"])
def test_a_sequence_is_legal_exactly_when_strict_and_lenient_readings_keep_all_its_words(scheme: str) -> None:
    # Brute force over all sequences of three labels: legal ones are those whose strict spans, written again, give the
    # same tags; every other sequence loses something.
    label_set = LabelSet.of_types(["X", "Y"], scheme)
    legal = label_set.transitions()
    for path in itertools.product(range(len(label_set.labels)), repeat=3):
        tags = [label_set.labels[i] for i in path]
        allowed = bool(
            legal.begins[path[0]]
            and all(legal.follows[a, b] for a, b in itertools.pairwise(path))
            and legal.ends[path[-1]]
        )
        assert allowed == (write_tags(read_spans_strictly(tags, scheme), 3, scheme) == tags), tags


def test_the_scheme_is_guessed_from_the_labels() -> None:
    assert guess_scheme(["O", "B-X", "I-X"]) == "BIO"
    assert guess_scheme(["O", "I-X"]) == "IO"
    assert guess_scheme(["O", "B-X", "S-X"]) == "IOBES"
    assert guess_scheme(["O", "B-X", "U-X"]) == "BIOUL"


def test_label_maps_of_types_alone_are_read_as_inside_tags() -> None:
    # Taggers on the hub are often named so (O, Disease); transformers' own pipeline reads them as I-Disease, too.
    found = LabelSet.of_folder(Path("tagger"), ["Cell-Line", "O", "Disease"])
    assert found == LabelSet(("I-Cell-Line", "O", "I-Disease"), "IO")
    assert found.types == ["Cell-Line", "Disease"]
    mixed = ("B-Disease", "I-Disease", "O")
    assert LabelSet.of_folder(Path("tagger"), mixed) == LabelSet(mixed, "BIO")


@pytest.mark.parametrize(
    "labels, reason",
    [
        (["LABEL_0", "LABEL_1"], "names no tags; write O, B-Disease"),
        (["O", "B-Disease", "Drug"], "'Drug' is not a tag"),
        (["B-Disease", "I-Disease"], "has no O"),
    ],
)
def test_label_maps_that_are_no_tags_are_refused_with_the_labels_found(
    labels: list[str], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason) as caught:
        LabelSet.of_folder(Path("tagger"), labels)
    assert all(label in str(caught.value) for label in labels)
