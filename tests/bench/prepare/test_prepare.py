"""Instances from raw corpora."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from biosmith.bench.dataset import find_file
from biosmith.bench.prepare import prepare, punkt
from biosmith.bench.prepare.chemprot import KNOWLEDGE
from biosmith.bench.prepare.marking import mark
from biosmith.errors import BadInput, UsageError
from biosmith.text.files import open_decompressed


@pytest.mark.parametrize(
    ("name", "raw", "prepared"),
    [("chemprot", "chemprot", "chemprot/blurb"), ("ddi", "ddi/DDIextraction_2013.tar.gz", "ddi/blurb")],
)
def test_instances_equal_the_prepared_files_byte_for_byte(
    shared_data: Path, tmp_path: Path, name: str, raw: str, prepared: str
) -> None:
    counts = prepare(name, shared_data / "benchmarks" / raw, tmp_path / "out")
    for split in ("train", "dev", "test"):
        path = find_file(shared_data / "benchmarks" / prepared, f"{split}.tsv")
        assert path is not None
        with open_decompressed(path) as stream:
            expected = stream.read()
        made = (tmp_path / "out" / f"{split}.tsv").read_bytes()
        assert made == expected
        assert counts[split] == expected.count(b"\n")


def test_mentions_become_markers_and_overlapping_ones_their_union() -> None:
    markers = ("@CHEMICAL$", "@GENE$")
    assert mark("aa bb cc", (6, 8), (0, 2), markers, "@CHEM-GENE$") == "@GENE$ bb @CHEMICAL$"
    assert mark("aa bb cc", (0, 5), (3, 8), markers, "@CHEM-GENE$") == "@CHEM-GENE$"
    # Touching mentions do not overlap.
    assert mark("aabb", (0, 2), (2, 4), markers, "@CHEM-GENE$") == "@CHEMICAL$@GENE$"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("We saw it. It was red.", ["We saw it.", "It was red."]),
        # An abbreviation does not end a sentence, unless a word that is else in lower case follows in upper case.
        ("Given 5 mg/kg s.c. daily to rats.", ["Given 5 mg/kg s.c. daily to rats."]),
        ("Given s.c. Protein fell.", ["Given s.c.", "Protein fell."]),
        # An initial is no end before a name, and is one before a word known in lower case.
        ("J. Smith wrote it.", ["J. Smith wrote it."]),
        ("It was factor X. The rats grew.", ["It was factor X.", "The rats grew."]),
        ("(It fell.) It rose.", ["(It fell.)", "It rose."]),
        ("Did it? It did!", ["Did it?", "It did!"]),
        (
            "It fell by 3.5 units at pH 7. In rats it rose.",
            ["It fell by 3.5 units at pH 7.", "In rats it rose."],
        ),
    ],
)
def test_punkt_decides_by_abbreviations_and_the_case_of_the_next_word(
    text: str, sentences: list[str]
) -> None:
    assert [text[a:b] for a, b in punkt.sentences(text, KNOWLEDGE)] == sentences


XML = """<?xml version="1.0"?>
<document id="d"><sentence id="d.s0" text="A and B&#xd;&#xa;react.">
<entity id="e0" charOffset="0-0" type="drug" text="A"/><entity id="e1" charOffset="6-6" type="drug" text="B"/>
<pair id="p0" e1="e0" e2="e1" ddi="{ddi}"{type}/></sentence></document>"""


def ddi_corpus(folder: Path, xml: str) -> Path:
    archive = folder / "corpus.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for split in ("train", "dev", "test"):
            info = tarfile.TarInfo(f"corpus/{split}/x.xml")
            content = xml.encode()
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
            (folder / f"{split}_files.tsv").write_text(f"{split}/x.xml\n", encoding="utf-8")
    return archive


def test_ddi_pairs_keep_their_offsets_and_line_ends_become_spaces(tmp_path: Path) -> None:
    archive = ddi_corpus(tmp_path, XML.format(ddi="true", type=' type="effect"'))
    assert prepare("DDI", archive, tmp_path / "out") == {"train": 1, "dev": 1, "test": 1}
    row = (tmp_path / "out" / "test.tsv").read_text(encoding="utf-8")
    assert row == "p0\t@DRUG$ and @DRUG$  react.\tDDI-effect\n"


def test_what_cannot_be_prepared_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="valid: chemprot, ddi"):
        prepare("hoc", tmp_path, tmp_path / "out")
    with pytest.raises(UsageError, match="is not the ChemProt corpus"):
        prepare("chemprot", tmp_path, tmp_path / "out")
    with pytest.raises(UsageError, match="no lists of the files"):
        prepare("ddi", tmp_path, tmp_path / "out")
    archive = ddi_corpus(tmp_path, XML.format(ddi="true", type=""))
    with pytest.raises(BadInput, match=r'p0: has ddi="true" and no type'):
        prepare("ddi", archive, tmp_path / "out")
    ddi_corpus(tmp_path, XML.format(ddi="false", type=""))
    (tmp_path / "dev_files.tsv").write_text("dev/y.xml\n", encoding="utf-8")
    with pytest.raises(
        BadInput, match=r"dev_files.tsv: names a file that is not in the corpus \(found 'dev/y.xml'\)"
    ):
        prepare("ddi", archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()
