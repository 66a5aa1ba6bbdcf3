"""Identifiers from a vocabulary, abbreviations by their definitions."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

import biosmith
from biosmith.annotate.annotator import Counts
from biosmith.annotate.linking import LinkStep, find_abbreviations, read_vocabulary
from biosmith.cli import main
from biosmith.errors import BadInput, UsageError
from biosmith.text.document import Document, Mention

OBO = """format-version: 1.2

[Term]
id: DOID:1
name: breast cancer
synonym: "malignant \\"tumor\\" of breast" EXACT []
synonym: "breast lump" RELATED []

[Term]
id: DOID:2
name: old name
is_obsolete: true

[Typedef]
id: part_of
name: part of
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("with systemic lupus erythematosus (SLE).", {"SLE": "systemic lupus erythematosus"}),
        ("heat shock transcription factor (HSF) and", {"HSF": "heat shock transcription factor"}),
        # The first letter must begin a word: "inhibitor" of "kinase inhibitor" does, the one inside "mitosis" does not.
        ("the mitosis kinase inhibitor (KI)", {"KI": "kinase inhibitor"}),
        ("tumour necrosis factor alpha (TNF-\u03b1)", {}),  # the Greek letter is not in the long form
        ("in mice (Figure 1)", {}),
        ("(ABC)", {}),
        ("ataxia telangiectasia (AT; OMIM 208900)", {"AT": "ataxia telangiectasia"}),
        ("Levels of\ntumor necrosis factor (TNF) rose.", {"TNF": "tumor necrosis factor"}),
    ],
)
def test_abbreviations_are_those_that_the_text_defines(text: str, expected: dict[str, str]) -> None:
    assert find_abbreviations(text) == expected


def test_abbreviations_of_a_long_text_are_found_in_linear_time() -> None:
    text = "The tumor necrosis factor (TNF) was found. " * 50_000
    began = time.process_time()
    assert find_abbreviations(text) == {"TNF": "tumor necrosis factor"}
    assert time.process_time() - began < 15


def test_obo_gives_names_and_exact_synonyms_of_terms_in_use(tmp_path: Path) -> None:
    path = tmp_path / "doid.obo"
    path.write_text(OBO, encoding="utf-8")
    vocabulary = read_vocabulary(path)
    assert vocabulary.find("Breast-cancers") == ("DOID:1",)
    assert vocabulary.find('malignant "tumor" of breast') == ("DOID:1",)
    assert vocabulary.find("breast lump") == vocabulary.find("old name") == vocabulary.find("part of") == ()


def test_a_table_may_tell_types_apart(tmp_path: Path) -> None:
    path = tmp_path / "names.tsv"
    path.write_text("# names\nMESH:D1\tCAT\tDisease\nGENE:847\tCAT\tGene\nX:1\tgout\n", encoding="utf-8")
    vocabulary = read_vocabulary(path)
    assert vocabulary.find("cat", "Gene") == ("GENE:847",)
    assert vocabulary.find("cat", "Chemical") == ()
    assert vocabulary.find("gout", "Disease") == ("X:1",)


def test_mentions_are_linked_by_name_and_by_long_form_and_kept_where_they_have_ids(tmp_path: Path) -> None:
    path = tmp_path / "names.tsv"
    path.write_text("D:1\tsystemic lupus erythematosus\nD:2\tgout\n", encoding="utf-8")
    text = "Systemic lupus erythematosus (SLE) or gout. SLE is rare."
    names = ["Systemic lupus erythematosus", "SLE", "gout", "rare"]
    mentions = [Mention(text.index(n), text.index(n) + len(n), n, "Disease") for n in names]
    mentions.append(Mention(44, 47, "SLE", "Disease", ids=("D:9",)))
    counts = Counts()
    (linked,) = LinkStep(read_vocabulary(path))([Document("1", text, (), tuple(mentions))], counts)
    assert [m.ids for m in linked.mentions] == [("D:1",), ("D:1",), ("D:2",), (), ("D:9",)]
    assert counts.linked == 3  # the last one brought its identifier with it


def test_a_vocabulary_for_types_that_no_tagger_finds_is_refused(tagger_folder: Path, tmp_path: Path) -> None:
    # Tables of names often have a third column that means something else; not one mention would have been linked.
    path = tmp_path / "names.tsv"
    path.write_text("D:1\tgout\tMONDO\nD:2\tanemia\tOMIM\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"mondo, omim.*valid: Chemical, Disease"):
        biosmith.load(tagger_folder, link=path)
    path.write_text("D:1\tgout\tdisease\nD:2\tanemia\tOMIM\n", encoding="utf-8")
    (found,) = biosmith.load(tagger_folder, link=path).annotate("Gout is rare.")
    assert [m.ids for m in found.mentions] == [("D:1",)]
    # What types kept mentions have is known only when they are read.
    path.write_text("D:1\tgout\tPhenotype\n", encoding="utf-8")
    biosmith.load(tagger_folder, link=path, keep=True)


def test_the_command_says_how_many_mentions_were_linked(
    tagger_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "names.tsv").write_text("D:1\tgout\n", encoding="utf-8")
    (tmp_path / "in.txt").write_text(
        "Gout is rare. Patients with anemia were given heparin.", encoding="utf-8"
    )
    call = ["annotate", "in.txt", "--model", str(tagger_folder), "--link", "names.tsv", "--out", "out.jsonl"]
    with contextlib.chdir(tmp_path):
        assert main(call) == 0
    assert "3 mentions (1 linked)" in capsys.readouterr().out


def test_bad_vocabularies_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_vocabulary(tmp_path / "absent.tsv")
    with pytest.raises(UsageError, match="is a folder"):
        read_vocabulary(tmp_path)
    bad = tmp_path / "bad.tsv"
    bad.write_text("D:1\tgout\nno tab here\n", encoding="utf-8")
    with pytest.raises(BadInput, match="line 2"):
        read_vocabulary(bad)
    bad.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(BadInput, match="no name"):
        read_vocabulary(bad)
