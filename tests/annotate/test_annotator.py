"""Documents through a tagger: offsets, order, long sentences, failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import biosmith
from biosmith.annotate.annotator import Annotator, chunked
from biosmith.annotate.sequences import Scores, Sequences
from biosmith.errors import UsageError
from biosmith.rejects import Rejects
from biosmith.text.document import Document, Mention, Passage, Relation

NASTY = st.lists(
    st.sampled_from(
        [
            *(
                "gout",
                "breast cancer",
                "Aspirin",
                "anemia.",
                " ",
                "\n\n",
                ". ",
                "(",
                "colitis-like",
                "\u00a0",
            ),
            *(
                "\u0301",
                "\u200b",
                "\u202eabc\u202c",
                "\x00",
                "\ufeff",
                "𝛼-syn",
                "👩\u200d🔬",
                "ﬁ",
                "H₂O₂",
                "\ud800",
            ),
            *(
                "x" * 300,
                "GATTACA" * 60,
                "\u2028",
                "\x85",
                "e\u0301" * 20,
                "&lt;",
                "日本語",
                "עברית",
                "\t",
                "",
            ),
        ]
    )
    | st.text(max_size=12),
    max_size=14,
).map("".join)


@pytest.fixture(scope="module")
def nlp(tagger_folder: Path) -> Annotator:
    return biosmith.load(tagger_folder)


def document(text: str, id: str = "1") -> Document:
    return Document(id, text, (Passage("abstract", text, 0),))


def check_offsets(annotated: Document) -> None:
    for mention in annotated.mentions:
        assert annotated.text[mention.start : mention.end] == mention.text
        assert mention.text and mention.text.strip() == mention.text
        assert mention.score is not None and 0 < mention.score <= 1
        assert annotated.passage_at(mention.start, mention.end) is not None


@given(st.lists(NASTY, min_size=1, max_size=4), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_mention_is_the_text_at_its_offsets_whatever_the_text(
    nlp: Annotator, texts: list[str], normalise: bool
) -> None:
    given_document = Document.build("1", [Passage("paragraph", t) for t in texts])
    reading = Annotator(nlp.readers, normalise=normalise)
    (annotated,) = reading.annotate([given_document])
    assert annotated.text == given_document.text
    check_offsets(annotated)


@pytest.mark.parametrize(
    "text", ["colitis-like " * 2_000, "x" * 30_000, "a\u0301" * 20_000, "((" * 3_000, "\x01 " * 5_000]
)
def test_huge_paragraphs_without_a_full_stop_are_read_to_their_end(nlp: Annotator, text: str) -> None:
    text += " and gout"
    (annotated,) = nlp.annotate([document(text)])
    check_offsets(annotated)
    assert "gout" in [m.text for m in annotated.mentions if m.end == len(text)]
    assert nlp.counts.truncated == 0


def test_variants_of_characters_are_read_as_plain_ones_where_that_is_asked_for(tagger_folder: Path) -> None:
    # The vocabulary has letters, but no ligatures: as it stands the word is one unknown piece.
    text = "Patients with pro\ufb01t and gout were given heparin."
    given_document = document(text)
    as_it_stands, plain = (biosmith.load(tagger_folder, normalise=flag) for flag in (False, True))
    for nlp in (as_it_stands, plain):
        (annotated,) = nlp.annotate([given_document])
        check_offsets(annotated)
        assert "gout" in [m.text for m in annotated.mentions]
    assert (as_it_stands.counts.unknown, plain.counts.unknown) == (1, 0)


def test_mentions_are_found_in_every_passage(nlp: Annotator) -> None:
    passages = [
        Passage("title", "Gout is rare."),
        Passage("abstract", "Patients with anemia were given heparin."),
    ]
    (annotated,) = nlp.annotate([Document.build("1", passages)])
    found = {(m.text.lower(), m.type) for m in annotated.mentions}
    assert {("gout", "Disease"), ("anemia", "Disease"), ("heparin", "Chemical")} <= found
    check_offsets(annotated)


def test_texts_are_documents_by_number_and_one_stands_for_a_list(nlp: Annotator) -> None:
    text = "No cure. Asthma was seen.\n\nAspirin  was given."
    (one,) = nlp.annotate(text)
    both = list(nlp.annotate([text, Document("d", text)]))
    assert (one.id, one.text) == ("1", text)
    assert [document.id for document in both] == ["1", "d"]
    assert one.mentions == both[0].mentions == both[1].mentions == next(nlp.annotate(both[1])).mentions
    with pytest.raises(UsageError, match="item 2 is of type dict; annotate takes texts"):
        list(nlp.annotate([text, {"text": text}]))  # type: ignore[list-item]


def test_a_document_without_passages_is_read_by_its_text(nlp: Annotator) -> None:
    (annotated,) = nlp.annotate([Document("1", "Gout is rare.")])
    assert [m.text for m in annotated.mentions] == ["Gout"]


def test_documents_come_in_order_and_all_of_them(nlp: Annotator) -> None:
    texts = ["Gout is rare." * (i % 5) for i in range(50)]
    annotated = list(nlp.annotate(document(t, str(i)) for i, t in enumerate(texts)))
    assert [d.id for d in annotated] == [str(i) for i in range(50)]
    assert [d.text for d in annotated] == texts


def test_company_in_a_batch_changes_no_mention(nlp: Annotator) -> None:
    texts = [
        "Gout is rare.",
        "No effect of aspirin was seen. " * 9,
        "Heparin does not cause colitis in mice.",
        "",
    ]
    together = list(nlp.annotate([document(t) for t in texts]))
    alone = [next(iter(nlp.annotate([document(t)]))) for t in texts]
    for a, b in zip(together, alone, strict=True):
        assert [(m.start, m.end, m.type) for m in a.mentions] == [
            (m.start, m.end, m.type) for m in b.mentions
        ]


def test_reading_is_bounded_ahead_of_what_is_given_out(nlp: Annotator) -> None:
    read = 0

    def endless() -> object:
        nonlocal read
        while True:
            read += 1
            yield document("Gout is rare.", str(read))

    stream = nlp.annotate(endless())  # type: ignore[arg-type]
    assert next(stream).id == "1"
    assert read <= 8


def test_huge_documents_fill_a_chunk_alone() -> None:
    sizes = [len(c) for c in chunked(document("x " * 300_000, str(i)) for i in range(3))]
    assert sizes == [1, 1, 1]


LONG = "in " * 100 + "patients with gout"


def test_long_sentences_are_read_in_windows_by_default(tagger_folder: Path) -> None:
    nlp = biosmith.load(tagger_folder)
    (annotated,) = nlp.annotate([document(LONG)])
    assert [m.text for m in annotated.mentions if m.text == "gout"] == ["gout"]
    assert nlp.counts.windows > 1 and nlp.counts.truncated == 0


def test_truncation_is_a_choice_and_is_counted(tagger_folder: Path) -> None:
    nlp = biosmith.load(tagger_folder, on_long="truncate")
    (annotated,) = nlp.annotate([document(LONG)])
    # 62 of the 103 words fit beside the two special tokens.
    assert nlp.counts.truncated == 103 - 62
    assert all(m.end <= 62 * 3 for m in annotated.mentions)


def test_a_long_sentence_may_be_an_error_of_its_document_only(tagger_folder: Path) -> None:
    nlp = biosmith.load(tagger_folder, on_long="error")
    rejects = Rejects()
    documents = [document("Gout is rare.", "a"), document(LONG, "b"), document("Gout is rare.", "c")]
    assert [d.id for d in nlp.annotate(documents, rejects=rejects)] == ["a", "c"]
    assert [(item["record"], "103 pieces" in item["reason"]) for item in rejects.items] == [("b", True)]
    assert (nlp.counts.documents, nlp.counts.failed, nlp.counts.windows) == (2, 1, 2)


def test_a_document_that_breaks_the_engine_is_listed_and_the_rest_goes_on(
    tagger_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nlp = biosmith.load(tagger_folder)
    (reader,) = nlp.readers
    engine = reader.engine

    def fragile(sequences: Sequences) -> Scores:
        if 9 in sequences.lengths:  # seven words between two special tokens
            raise RuntimeError("boom")
        return engine(sequences)

    monkeypatch.setattr(reader, "engine", fragile)
    rejects = Rejects()
    documents = [document("Gout is rare." if i != 13 else "a b c d e f g", str(i)) for i in range(20)]
    done = list(nlp.annotate(documents, rejects=rejects))
    assert [d.id for d in done] == [str(i) for i in range(20) if i != 13]
    assert rejects.items == [{"file": "annotate", "record": "13", "reason": "RuntimeError: boom"}]


def test_gold_mentions_are_replaced_unless_kept(tagger_folder: Path) -> None:
    gold = Mention(8, 12, "rare", "Frequency", id="T1")
    given_document = Document("1", "Gout is rare.", (), (gold,), (Relation("about", (), id="R1"),))
    (replaced,) = biosmith.load(tagger_folder).annotate([given_document])
    assert [m.text for m in replaced.mentions] == ["Gout"] and not replaced.relations
    (kept,) = biosmith.load(tagger_folder, keep=True).annotate([given_document])
    assert [m.text for m in kept.mentions] == ["Gout", "rare"] and len(kept.relations) == 1


def test_several_models_each_add_their_mentions(tagger_folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(tagger_folder, tmp_path / "second")
    nlp = biosmith.load([tagger_folder, tmp_path / "second"])
    (annotated,) = nlp.annotate([document("Gout is rare.")])
    assert [(m.text, m.infons["model"]) for m in annotated.mentions] == [
        ("Gout", "diseases"),
        ("Gout", "second"),
    ]


def test_unknown_choices_name_the_valid_ones(tagger_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="engine 'tpu' is unknown; valid: auto, torch"):
        biosmith.load(tagger_folder, engine="tpu")
    with pytest.raises(UsageError, match="valid: window, error, truncate"):
        biosmith.load(tagger_folder, on_long="cut")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not exist"):
        biosmith.load(tmp_path / "absent")
    with pytest.raises(UsageError, match="no model"):
        biosmith.load([])
    with pytest.raises(UsageError, match="diseases is given twice"):
        biosmith.load([tagger_folder, tagger_folder.parent / "." / "data" / ".." / "diseases"])


def test_a_model_is_called_by_the_link_that_was_given(
    tagger_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the benchmarks call it; the folder behind it may be named by a digest.
    (tmp_path / "mine").symlink_to(tagger_folder, target_is_directory=True)
    assert biosmith.load(tmp_path / "mine").taggers == ["mine"]
    monkeypatch.chdir(tagger_folder)
    assert biosmith.load(".").taggers == [tagger_folder.name]
