"""Instances from raw corpora."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from biosmith.bench.dataset import find_file
from biosmith.bench.prepare import prepare, punkt
from biosmith.bench.prepare.chemprot import KNOWLEDGE, PARTS
from biosmith.bench.prepare.marking import mark
from biosmith.cli import main
from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.text.files import open_decompressed


@pytest.mark.parametrize(
    ("name", "raw", "prepared"),
    [
        ("chemprot", "chemprot", "chemprot/blurb"),
        ("ddi", "ddi/DDIextraction_2013.tar.gz", "ddi/blurb"),
        ("hoc", "hoc/Hallmarks-of-Cancer.tar.gz", "hoc"),
    ],
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
        assert counts[split] == expected.count(b"\n") - expected.startswith(b"labels\t")


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


def test_a_pair_of_ddi_that_interacts_in_no_known_way_is_left_out_and_listed(tmp_path: Path) -> None:
    faults = Rejects()
    archive = ddi_corpus(tmp_path, XML.format(ddi="true", type=""))
    assert prepare("ddi", archive, tmp_path / "out", faults=faults) == {"train": 0, "dev": 0, "test": 0}
    assert [item["record"] for item in faults.items] == ["p0"] * 3
    assert faults.items[0]["reason"] == 'has ddi="true" and no type; the pair is left out'


def test_ddi_is_prepared_from_the_release_of_its_authors_too(shared_data: Path, tmp_path: Path) -> None:
    ddi, faults = shared_data / "benchmarks/ddi", Rejects()
    counts = prepare("ddi", ddi / "DDICorpus-2013.zip", tmp_path / "out", ddi / "blurb/indexing", faults)
    # One training pair has ddi="true" and no type; no offset of that release is wrong (SOURCES-sequence.md).
    assert counts == {"train": 25296 - 1, "dev": 2496, "test": 5716}
    assert [item["record"] for item in faults.items] == ["DDI-DrugBank.d236.s29.p0"]


def test_what_cannot_be_prepared_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="valid: chemprot, ddi, hoc"):
        prepare("gad", tmp_path, tmp_path / "out")
    with pytest.raises(UsageError, match="is not the ChemProt corpus"):
        prepare("chemprot", tmp_path, tmp_path / "out")
    with pytest.raises(UsageError, match="no lists of the files"):
        prepare("ddi", tmp_path, tmp_path / "out")
    archive = ddi_corpus(tmp_path, XML.format(ddi="false", type=""))
    (tmp_path / "dev_files.tsv").write_text("dev/y.xml\n", encoding="utf-8")
    with pytest.raises(
        BadInput, match=r"dev_files.tsv: names a file that is not in the corpus \(found 'dev/y.xml'\)"
    ):
        prepare("ddi", archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_faults_that_the_benchmarks_took_as_they_are_are_listed(shared_data: Path, tmp_path: Path) -> None:
    # SOURCES-sequence.md: 23 mentions of this release are one character too high; 28 pairs have two relations (train
    # 10, dev 4, test 14), of which the last line counts.
    ddi, chemprot = Rejects(), Rejects()
    benchmarks = shared_data / "benchmarks"
    prepare("ddi", benchmarks / "ddi" / "DDIextraction_2013.tar.gz", tmp_path / "ddi", faults=ddi)
    assert ddi.count == 23
    assert ddi.items[0]["value"] == "'angiotensin 1' at 184-196, where the text is 'ngiotensin 1 '"
    prepare("chemprot", benchmarks / "chemprot", tmp_path / "chemprot", faults=chemprot)
    names = [Path(item["file"]).name.split("_")[1] for item in chemprot.items]
    assert [names.count(part) for part in ("training", "development", "test")] == [10, 4, 14]


CORPUS = {
    "abstracts": "1\tOn aspirin.\tAspirin inhibits COX-1.\n",
    "entities": "1\tT1\tCHEMICAL\t12\t19\tAspirin\n1\tT2\tGENE-Y\t29\t34\tCOX-1\n",
    "gold_standard": "1\tCPR:4\tArg1:T1\tArg2:T2\n",
}


def write_corpus(folder: Path, **changed: str) -> Path:
    for part, start, end in PARTS.values():
        (folder / part).mkdir(parents=True)
        for kind, text in {**CORPUS, **(changed if part == "chemprot_training" else {})}.items():
            name = f"{start}_{kind}{'' if kind == 'gold_standard' else end}.tsv"
            (folder / part / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (
            "entities",
            CORPUS["entities"].replace("29\t34", "30\t35"),
            r"training_entities\.tsv, line 2: the entity is 'COX-1', the text at 30-35 is another \(found 'OX-1\.'\)",
        ),
        (
            "entities",
            "2\tT1\tCHEMICAL\t0\t1\tO\n",
            r"entities\.tsv, line 1: is of an abstract that is not there",
        ),
        ("gold_standard", "1\tCPR:7\tArg1:T1\tArg2:T2\n", r"line 1: has an unknown relation.*'CPR:7'.*CPR:3"),
        (
            "gold_standard",
            "1\tCPR:4\tArg1:T1\tArg2:T9\n",
            r"line 1: names an entity that 1 does not have.*'T9'",
        ),
        ("abstracts", "1\tno abstract\n", r"abstracts\.tsv, line 1: has 2 columns, not 3"),
    ],
)
def test_a_damaged_corpus_is_named_by_file_and_line(
    tmp_path: Path, kind: str, text: str, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        prepare("chemprot", write_corpus(tmp_path / "raw", **{kind: text}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_cut_file_and_an_abstract_that_comes_twice_are_named(tmp_path: Path) -> None:
    raw = write_corpus(tmp_path / "raw")
    path = next(raw.rglob("*abstracts*.tsv"))
    text = path.read_bytes()
    path.write_bytes(text + text)
    with pytest.raises(BadInput, match="line 2: the abstract stands at line 1 too"):
        prepare("chemprot", raw, tmp_path / "out")
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(text)[:-9])
    path.unlink()
    with pytest.raises(BadInput, match=r"\.gz, after line \d: is damaged"):
        prepare("chemprot", raw, tmp_path / "out")


def test_a_small_corpus_becomes_one_instance(tmp_path: Path) -> None:
    counts = prepare("chemprot", write_corpus(tmp_path / "raw"), tmp_path / "out")
    assert counts == {"train": 1, "dev": 1, "test": 1}
    made = (tmp_path / "out" / "test.tsv").read_text(encoding="utf-8")
    assert made == "1.T1.T2\t@CHEMICAL$ inhibits @GENE$.\tCPR:4\n"


def test_hallmarks_are_read_from_segments(tmp_path: Path) -> None:
    # The second sentence has two hallmarks, one with a finer label after it; NULL is none.
    write_hoc(tmp_path, "< < Cellular energetics--Glycolysis ANDInducing angiogenesis<NULL< ", "a\nb\nc\nd\n")
    assert prepare("hoc", tmp_path, tmp_path / "out") == {"train": 4, "dev": 4, "test": 4}
    rows = (tmp_path / "out" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    assert rows[2] == "0_0,1_0,2_1,3_0,4_0,5_0,6_1,7_0,8_0,9_0\tb\t7_s1"
    assert all("_1" not in rows[i].split("\t")[0] for i in (1, 3, 4))


def write_hoc(folder: Path, labels: str, text: str) -> None:
    for name, content in (("labels/7.txt", labels), ("text/7.txt", text)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    for split in ("train", "dev", "test"):
        (folder / f"{split}_pmid.tsv").write_text("7.txt", encoding="utf-8")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("< ", r"labels/7\.txt: labels 1 sentences, text/7\.txt has 2"),
        (
            "< <Being ill",
            r"labels/7\.txt, sentence 2: is not a hallmark \(found 'Being ill'\); valid: Activating",
        ),
    ],
)
def test_labels_that_do_not_fit_the_text_are_named(tmp_path: Path, labels: str, message: str) -> None:
    write_hoc(tmp_path, labels, "a\nb\n")
    with pytest.raises(BadInput, match=message):
        prepare("hoc", tmp_path, tmp_path / "out")


ELEMENTS = {"participants": "I-PAR", "interventions": "I-INT", "outcomes": "I-OUT"}


def write_ebm_nlp(
    folder: Path, id: str, where: str, tokens: Sequence[str], labels: Mapping[str, Sequence[int]]
) -> None:
    """An abstract as EBM-NLP 2.00 has it: a token a line, and a label a line for each element."""
    home = folder / "ebm_nlp_2_00"
    files = {home / "documents" / f"{id}.tokens": tokens}
    for element, of_tokens in labels.items():
        name = home / "annotations/aggregated/starting_spans" / element / where / f"{id}.AGGREGATED.ann"
        files[name] = [str(label) for label in of_tokens]
    for path, lines in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_lists(folder: Path, **ids: str) -> Path:
    folder.mkdir()
    for split, listed in ids.items():
        (folder / f"{split}_pmid.tsv").write_text(listed)
    return folder


def test_ebm_pico_is_made_as_blurbs_files_are(shared_data: Path, tmp_path: Path) -> None:
    # The corpus itself is not at hand; its files are made of BLURB's test split, which says each token and its tag.
    blurb = shared_data / "benchmarks/EBM-NLP"
    lines = (blurb / "blurb/test.tsv").read_text(encoding="utf-8").split("\n")
    rows: dict[str, list[list[str]]] = {}
    for line in lines:
        if line.startswith("-DOCSTART-"):
            of_document = rows.setdefault(line[12:-1], [])
        elif line:
            of_document.append(line.split("\t"))
    for id, words in rows.items():
        labels = {element: [int(tag == name) for _, tag in words] for element, name in ELEMENTS.items()}
        write_ebm_nlp(tmp_path, id, "test/gold", [token for token, _ in words], labels)
    write_ebm_nlp(tmp_path, "1", "train", ["Pain", "."], {"outcomes": [1, 0]})
    test = (blurb / "indexing/test_pmid.tsv").read_text()
    lists = write_lists(tmp_path / "lists", train="1", dev="1", test=test)
    with tarfile.open(tmp_path / "ebm.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "ebm_nlp_2_00", "ebm_nlp_2_00")
    for raw in ("ebm_nlp_2_00", "ebm.tar.gz"):
        prepare("ebm-pico", tmp_path / raw, tmp_path / f"{raw}-out", lists)
        assert (tmp_path / f"{raw}-out/test.tsv").read_text(encoding="utf-8").split("\n") == lines


def test_where_elements_of_ebm_pico_overlap_the_last_one_counts(tmp_path: Path) -> None:
    tokens = ["Pain", "in", "adults", ".", "Fell"]
    labels = {"participants": [1, 1, 1, 0, 0], "interventions": [0, 1, 0, 0, 0], "outcomes": [1, 0, 0, 0]}
    write_ebm_nlp(tmp_path, "1", "train", tokens, labels)
    write_ebm_nlp(tmp_path, "2", "test/gold", tokens, {})
    lists = write_lists(tmp_path / "lists", train="1", dev="1", test="1")
    with pytest.raises(
        BadInput, match=r"test_pmid.tsv: names an abstract without annotations in test/gold .*'1'"
    ):
        prepare("ebm-pico", tmp_path, tmp_path / "out", lists)
    write_ebm_nlp(tmp_path, "1", "test/gold", tokens, {"outcomes": [0, 0, 0, 0, 1]})
    faults = Rejects()
    assert prepare("ebm-pico", tmp_path, tmp_path / "out", lists, faults)["train"] == 2
    made = (tmp_path / "out/train.tsv").read_text().split()
    assert made[2:] == ["Pain", "I-OUT", "in", "I-INT", "adults", "I-PAR", ".", "O", "Fell", "O"]
    # Of the four labels of the outcomes each is used, and that one is missing is said (for train and dev).
    assert [item["reason"] for item in faults.items] == ["labels 4 tokens, documents/1.tokens has 5"] * 2


def test_what_is_not_utf8_is_named_and_a_byte_order_mark_is_no_part_of_an_id(tmp_path: Path) -> None:
    for where in ("train", "test/gold"):
        write_ebm_nlp(tmp_path, "1", where, ["Pain", "."], {"outcomes": [1, 0]})
    lists = write_lists(tmp_path / "lists", train="1", dev="1", test="1")
    (lists / "train_pmid.tsv").write_bytes(b"\xef\xbb\xbf1\r\n")  # as editors on Windows save it
    assert prepare("ebm-pico", tmp_path, tmp_path / "out", lists) == {"train": 1, "dev": 1, "test": 1}
    (lists / "dev_pmid.tsv").write_bytes(b"1\n\xff\n")
    with pytest.raises(BadInput, match=r"dev_pmid\.tsv: is not UTF-8"):
        prepare("ebm-pico", tmp_path, tmp_path / "again", lists)
    (lists / "dev_pmid.tsv").write_bytes(b"1\n")
    (tmp_path / "ebm_nlp_2_00" / "documents" / "1.tokens").write_bytes(b"P\xe1in\n.\n")
    with pytest.raises(BadInput, match=r"1\.tokens: is not UTF-8"):
        prepare("ebm-pico", tmp_path, tmp_path / "again", lists)
    assert not (tmp_path / "again").exists()


def test_an_archive_with_a_password_is_refused_in_words(tmp_path: Path) -> None:
    raw = tmp_path / "hoc.zip"
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("text/1.txt", "Cells grow.")
    content = bytearray(raw.read_bytes())
    for at in (
        6,
        content.find(b"PK\x01\x02") + 8,
    ):  # the flag of an encrypted entry, there and in the directory
        content[at] |= 1
    raw.write_bytes(content)
    lists = write_lists(tmp_path / "lists", train="1", dev="1", test="1")
    with pytest.raises(BadInput, match=r"cannot be unpacked: .*encrypted"):
        prepare("hoc", raw, tmp_path / "out", lists)


def test_the_working_directory_can_be_the_folder_to_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, here = write_corpus(tmp_path / "raw"), tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert main(["data", "prepare", "chemprot", "--raw", str(raw), "--out", "."]) == 0
    assert {f"{split}.tsv" for split in ("train", "dev", "test")} <= {path.name for path in Path().iterdir()}
    assert main(["data", "prepare", "chemprot", "--raw", str(raw), "--out", "."]) == 2
    assert ". exists already" in capsys.readouterr().err
