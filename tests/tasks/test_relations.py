"""Texts of relations: dummies, markers, prepared files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.tasks.inputs import InputTransform
from biosmith.tasks.instances import Entity, Instance, read_table, with_entities
from biosmith.tasks.relations import Presented, dummify, mark, present
from biosmith.tasks.settings import RelationSettings
from biosmith.tasks.texts import piece_range, relation_examples

TEXT = "COX-1 is inhibited by aspirin."
CHEMICAL, GENE = Entity(22, 29, "CHEMICAL"), Entity(0, 5, "GENE")
MARKERS = ("<<", ">>", "[[", "]]")


def parts(what: Presented) -> list[str]:
    return [what.text[a:b] for a, b in (*what.mentions, *what.starts)]


def test_dummies_take_the_place_of_the_mentions_in_the_order_of_the_pair() -> None:
    what = dummify(TEXT, CHEMICAL, GENE)
    assert what.text == "@GENE$ is inhibited by @CHEMICAL$."
    assert parts(what)[:2] == ["@CHEMICAL$", "@GENE$"]


def test_overlapping_mentions_share_a_dummy_for_their_union() -> None:
    # "aspirin esterase": the chemical is a part of the gene's name.
    what = dummify("the aspirin esterase gene", Entity(4, 11, "CHEMICAL"), Entity(4, 20, "GENE"))
    assert what.text == "the @CHEMICAL-GENE$ gene"
    assert parts(what)[:2] == ["@CHEMICAL-GENE$"] * 2


def test_markers_stand_around_the_mentions_and_keep_their_words() -> None:
    what = mark(TEXT, CHEMICAL, GENE, MARKERS)
    assert what.text == "[[ COX-1 ]] is inhibited by << aspirin >>."
    assert parts(what) == ["aspirin", "COX-1", "<<", "[["]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ((0, 3), (0, 5), "[[ << abc >>de ]]f"),  # nested, the same beginning: the outer opens first
        ((2, 5), (0, 5), "[[ ab<< cde >> ]]f"),  # nested, the same end: the inner closes first
        ((0, 3), (2, 5), "<< ab[[ c >>de ]]f"),  # crossing
        ((0, 2), (2, 4), "<< ab >>[[ cd ]]ef"),  # touching: one closes before the other opens
    ],
)
def test_nested_and_crossing_mentions_keep_all_four_markers(
    first: tuple[int, int], second: tuple[int, int], text: str
) -> None:
    what = mark("abcdef", Entity(*first, "X"), Entity(*second, "Y"), MARKERS)
    assert what.text == text
    assert [what.text[a:b] for a, b in what.starts] == ["<<", "[["]


@given(st.data())
def test_text_without_its_markers_is_the_text_and_mentions_hold_their_words(data: Any) -> None:
    text = data.draw(st.text(alphabet="ab \u03b1\U0001f9ec", min_size=2, max_size=12))
    spans = []
    for _ in range(2):
        start = data.draw(st.integers(0, len(text) - 1))
        spans.append(Entity(start, data.draw(st.integers(start + 1, len(text))), "X"))
    what = mark(text, *spans, MARKERS)

    def bare(marked: str) -> str:
        for marker in ("<< ", " >>", "[[ ", " ]]"):
            marked = marked.replace(marker, "", 1)
        return marked

    assert bare(what.text) == text
    for (a, b), entity in zip(what.mentions, spans, strict=True):
        assert bare(what.text[a:b]) == text[entity.start : entity.end]
    dummies = dummify(text, *spans)
    overlap = spans[0].start < spans[1].end and spans[1].start < spans[0].end
    assert dummies.text.count("@X$") == (0 if overlap else 2)
    assert all(dummies.text[a:b] in ("@X$", "@X-X$") for a, b in dummies.mentions)


def test_a_prepared_file_gives_its_dummies_and_refuses_what_it_cannot() -> None:
    prepared = Instance("1", "@CHEMICAL$ inhibits @GENE$", "x", file="train.tsv", line=1)
    assert parts(present(prepared, RelationSettings()))[:2] == ["@CHEMICAL$", "@GENE$"]
    joint = Instance("1", "the @CHEM-GENE$ gene", "x")
    assert parts(present(joint, RelationSettings()))[:2] == ["@CHEM-GENE$"] * 2
    for text in ("markers", "original"):
        with pytest.raises(
            UsageError, match=r"train\.tsv has dummies in its texts already.*take text=dummies"
        ):
            present(prepared, RelationSettings(text=text))  # type: ignore[arg-type]


def test_the_texts_beside_a_prepared_file_allow_every_form(tmp_path: Path) -> None:
    rows = [("1.T1.T2", "@CHEMICAL$ inhibits @GENE$", "x"), ("1.T1.T3", "the @CHEM-GENE$ gene", "x")]
    (tmp_path / "train.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")

    def read() -> list[Instance]:
        table = read_table(
            tmp_path / "train.tsv",
            ("id", "text", "label"),
            lambda c: Instance(**c),
            Rejects(strict=True),
            header=False,
        )
        return list(with_entities(tmp_path / "train.tsv", table))

    assert all(not instance.entities for instance in read())
    lines = [
        {
            "id": "1.T1.T2",
            "text": "aspirin inhibits COX-1",
            "entities": [[0, 7, "CHEMICAL"], [17, 22, "GENE"]],
        },
        {
            "id": "1.T1.T3",
            "text": "the aspirin esterase gene",
            "entities": [[4, 11, "CHEMICAL"], [4, 20, "GENE"]],
        },
    ]
    beside = tmp_path / "train.entities.jsonl"
    beside.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    first, second = read()
    # Dummies are those of the prepared file, to the letter.
    assert present(second, RelationSettings()).text == "the @CHEM-GENE$ gene"
    assert present(first, RelationSettings(text="markers")).text == "<< aspirin >> inhibits [[ COX-1 ]]"
    original = present(second, RelationSettings(text="original"))
    assert parts(original)[:2] == ["aspirin", "aspirin esterase"]
    beside.write_text(json.dumps(lines[0]) + "\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"has no line for an instance of train\.tsv.*1\.T1\.T3"):
        read()
    beside.write_text("{}\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"train\.entities\.jsonl, line 1"):
        read()


def test_the_texts_beside_a_file_with_capitals_in_its_name_are_found(tmp_path: Path) -> None:
    (tmp_path / "Train.entities.jsonl").write_text("{}\n", encoding="utf-8")
    instance = Instance("1", "the @CHEM-GENE$ gene", "x")
    with pytest.raises(BadInput, match=r"Train\.entities\.jsonl, line 1"):
        list(with_entities(tmp_path / "Train.tsv", iter([instance])))


def test_a_marked_file_gives_its_markers_and_refuses_dummies() -> None:
    marked = Instance("1", "the << Ang II >>-induced rise; [[ valsartan ]]", "x")
    what = present(marked, RelationSettings(text="markers"))
    assert [part.strip() for part in parts(what)] == ["Ang II", "valsartan", "<<", "[["]
    with pytest.raises(UsageError, match="has markers in its texts already"):
        present(marked, RelationSettings())


def test_a_text_without_entities_dummies_or_markers_is_named() -> None:
    plain = Instance("9", "nothing here", "x", file="train.tsv", line=4)
    with pytest.raises(BadInput, match=r"train\.tsv, line 4 \(9\)"):
        present(plain, RelationSettings())
    with pytest.raises(BadInput, match="does not lie in the text"):
        present(Instance("1", "ab", "x", entities=(GENE, CHEMICAL)), RelationSettings())


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="needs text=markers"):
        RelationSettings(features="starts")
    with pytest.raises(UsageError, match="must hold"):
        RelationSettings(dummy="ENTITY")


def test_picks_are_the_pieces_of_the_mentions(tiny_model: Path) -> None:
    transform = InputTransform(tiny_model)
    instance = Instance(
        "1", "gout is rare in breast cancer", "x", entities=(Entity(0, 4, "A"), Entity(16, 29, "B"))
    )
    settings = RelationSettings(text="original", features="mentions")
    (example,) = relation_examples([instance], transform, 64, settings).examples
    # [CLS] gout is rare in breast cancer [SEP]
    assert example.picks.tolist() == [1, 1, 5, 6]
    settings = RelationSettings(text="markers", features="starts")
    (example,) = relation_examples([instance], transform, 64, settings).examples
    # [CLS] < < gout > > is rare in [ [ breast ...
    assert example.picks.tolist() == [1, 9]


def test_a_mention_behind_the_end_is_read_at_the_end_and_counted(tiny_model: Path) -> None:
    transform = InputTransform(tiny_model)
    text = "gout " + "rare " * 30 + "gout"
    instance = Instance("1", text, "x", entities=(Entity(0, 4, "A"), Entity(len(text) - 4, len(text), "B")))
    made = relation_examples(
        [instance], transform, 16, RelationSettings(text="original", features="mentions")
    )
    assert made.truncated == [True]
    assert len(made.examples[0].ids) == 16
    assert made.examples[0].picks.tolist() == [1, 1, 14, 14]


def test_a_place_between_pieces_is_read_at_the_nearest_one(tiny_model: Path) -> None:
    cut = InputTransform(tiny_model).cut_texts(["gout  rare"])[0]
    assert piece_range(cut, (4, 6)) == (1, 1)
    assert piece_range(cut, (0, 10)) == (0, 1)


@pytest.mark.parametrize("name", ["chemprot", "ddi", "gad"])
def test_every_prepared_instance_has_its_two_mentions(name: str, shared_data: Path) -> None:
    from biosmith.text import files

    path = next((shared_data / "benchmarks" / name / "blurb").glob("dev.tsv*"))
    with files.open_decompressed(path) as stream:
        rows = stream.read().decode("utf-8").splitlines()[1:200]
    for row in rows:
        text = row.split("\t")[1]
        what = present(Instance("1", text, "x"), RelationSettings())
        assert all(text[a] == "@" and text[b - 1] == "$" for a, b in what.mentions)


@pytest.mark.parametrize("dummy", ["{type}{x}", "{{type}", "{type}{0}", "{type}{"])
def test_braces_of_a_dummy_are_characters_like_any_other(dummy: str) -> None:
    settings = RelationSettings(dummy=dummy)
    what = present(Instance("1", TEXT, "x", entities=(CHEMICAL, GENE)), settings)
    assert parts(what)[0] == dummy.replace("{type}", "CHEMICAL")


def test_a_marker_that_is_empty_is_refused() -> None:
    with pytest.raises(UsageError, match="markers must not be empty"):
        RelationSettings(text="markers", markers=("<<", ">>", "", "]]"))


def test_a_closing_marker_is_looked_for_behind_its_opening_one() -> None:
    text = "pH >> 7 , << aspirin >> inhibits [[ COX-1 ]]"
    what = present(Instance("1", text, "x"), RelationSettings(text="markers"))
    assert [part.strip() for part in parts(what)] == ["aspirin", "COX-1", "<<", "[["]
