"""The sample data: written by its script, labelled consistently, and holding the oddities it is said to hold."""

from __future__ import annotations

import importlib.util
import random
import re
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest
from lxml import etree

DATA = Path(__file__).resolve().parents[1] / "examples" / "data"
TAGS = {"O", "B-Disease", "I-Disease", "B-Chemical", "I-Chemical"}
# Words that are a name in one place and not in another: the quantifier, the verb, and parts of proteins' names.
NOT_ALWAYS_A_NAME = {"all", "lead", "leads"}
INSIDE_PROTEIN_NAMES = ("androgen receptor", "thiopurine methyltransferase")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_sample", DATA / "make_sample.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_sample"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def read_tagged(split: str) -> list[list[tuple[str, str]]]:
    blocks = (DATA / "ner" / f"{split}.tsv").read_text(encoding="utf-8").strip().split("\n\n")
    return [[(row.split("\t")[0], row.split("\t")[1]) for row in block.splitlines()] for block in blocks]


def names(sentences: list[list[tuple[str, str]]]) -> set[str]:
    found, current = set(), []
    for sentence in sentences:
        for token, tag in [*sentence, ("", "O")]:
            if not tag.startswith("I-") and current:
                found.add(" ".join(current).lower())
                current = []
            if tag != "O":
                current.append(token)
    return found


def test_the_script_writes_exactly_the_files_that_are_here(script: ModuleType, tmp_path: Path) -> None:
    script.main(tmp_path)
    written = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert len(written) == 8
    for name in written:
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes(), name


def test_the_files_stay_small() -> None:
    assert sum(p.stat().st_size for p in DATA.rglob("*") if p.is_file()) < 2_000_000


@pytest.mark.parametrize(("split", "sentences"), [("train", 516), ("devel", 134), ("test", 145)])
def test_tags_are_valid_bio_and_every_split_has_its_sentences(split: str, sentences: int) -> None:
    tagged = read_tagged(split)
    assert len(tagged) == sentences
    for sentence in tagged:
        before = "O"
        for token, tag in sentence:
            assert token and tag in TAGS
            if tag.startswith("I-"):
                assert before[2:] == tag[2:], sentence  # a name never begins with I
            before = tag


def test_no_sentence_of_development_or_test_occurs_in_training() -> None:
    training = {tuple(token for token, _ in sentence) for sentence in read_tagged("train")}
    for split in ("devel", "test"):
        texts = [tuple(token for token, _ in sentence) for sentence in read_tagged(split)]
        # Sentences without a name of their own ("Small studies ...") may recur; whole abstracts do not.
        repeated = sum(text in training for text in texts)
        assert repeated < 0.12 * len(texts), (split, repeated)


def test_a_good_part_of_the_test_names_never_occurs_in_training() -> None:
    seen, asked = names(read_tagged("train")), names(read_tagged("test"))
    assert 0.3 < len(asked - seen) / len(asked) < 0.9


def test_what_is_a_name_in_one_sentence_is_a_name_in_all(script: ModuleType) -> None:
    topics, kinds = script.load("topics"), script.load("studies")
    studies = list(script.draw_studies(topics, kinds, 8, random.Random(7)))
    marked = [script.read_marks(sentence) for study in studies for sentence in study.sentences]
    kinds_of: dict[str, set[str]] = defaultdict(set)
    for sentence in marked:
        for start, end, kind in sentence.spans:
            kinds_of[sentence.text[start:end].lower()].add(kind)
    assert {name for name, types in kinds_of.items() if len(types) > 1} == set()
    longest_first = sorted(kinds_of.keys() - NOT_ALWAYS_A_NAME, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)
    for sentence in marked:
        covered = {i for start, end, _ in sentence.spans for i in range(start, end)}
        for match in pattern.finditer(sentence.text):
            inside = sentence.text[match.start() :].lower().startswith(INSIDE_PROTEIN_NAMES)
            assert inside or covered & set(range(*match.span())), (match[0], sentence.text)


def test_gold_mentions_of_the_documents_to_annotate_are_the_text_at_their_offsets() -> None:
    records = (DATA / "to-annotate.gold.pubtator").read_text(encoding="utf-8").strip().split("\n\n")
    xml = etree.parse(DATA / "to-annotate.xml")
    assert [r.split("|")[0] for r in records] == [e.text for e in xml.iterfind(".//MedlineCitation/PMID")]
    for record in records:
        title, abstract, *rows = record.splitlines()
        text = f"{title.split('|', 2)[2]} {abstract.split('|', 2)[2]}"
        assert rows
        for row in rows:
            _, start, end, name, kind = row.split("\t")
            assert text[int(start) : int(end)] == name
            assert kind in ("Disease", "Chemical")


def test_the_gold_text_is_the_text_of_the_xml() -> None:
    records = (DATA / "to-annotate.gold.pubtator").read_text(encoding="utf-8").strip().split("\n\n")
    for record, article in zip(
        records, etree.parse(DATA / "to-annotate.xml").iterfind(".//Article"), strict=True
    ):
        title, abstract = (line.split("|", 2)[2] for line in record.splitlines()[:2])
        assert title == article.findtext("ArticleTitle")
        assert abstract == " ".join(part.text for part in article.iterfind("Abstract/AbstractText"))


def test_the_citations_hold_what_real_files_hold() -> None:
    baseline = etree.parse(DATA / "pubmed" / "sample-baseline.xml")
    update = etree.parse(DATA / "pubmed" / "sample-update.xml")
    numbers = [e.text for e in baseline.iterfind(".//MedlineCitation/PMID")]
    assert len(numbers) == len(set(numbers)) == 344
    assert all(int(n) >= 99_000_001 for n in numbers)  # far above real numbers, so nobody's work is meant
    newer = [e.text for e in update.iterfind(".//MedlineCitation/PMID[@Version='2']")]
    assert len(newer) == 4 and set(newer) <= set(numbers)
    deleted = [e.text for e in update.iterfind(".//DeleteCitation/PMID")]
    assert len(deleted) == 3 and len(set(deleted) & set(numbers)) == 2
    assert {e.text for e in update.iterfind(".//Language")} == {"eng", "ger", "spa", "fre", "por"}
    assert len(list(update.iterfind(".//VernacularTitle"))) == 4
    assert len(list(update.iterfind(".//OtherAbstract"))) == 1
    assert update.find(".//{http://www.w3.org/1998/Math/MathML}math") is not None
    assert len({e.get("Label") for e in baseline.iterfind(".//AbstractText")}) > 10
    assert any(a.find("Abstract") is None for a in baseline.iterfind(".//Article"))
