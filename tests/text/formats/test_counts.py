"""The benchmark files as they are: documents, mentions and relations as their papers and releases count them.

Every number is one of SOURCES-token.md, sections 1 and 3 (or, for the rest, SOURCES-sequence.md); where a file's own
mentions are not where it says, the number of those is asserted too.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from biosmith.rejects import Rejects
from biosmith.text.document import Document
from biosmith.text.formats import read
from biosmith.text.formats.mentions import DIFFERS, OUTSIDE


def read_all(path: Path) -> tuple[list[Document], Rejects]:
    rejects = Rejects()
    documents = list(read(path, rejects=rejects))
    # For each mention the text at its offsets is what it says, whatever the file says.
    assert not [m for d in documents for m in d.mismatches()]
    return documents, rejects


# dataset/split, sentences, tokens, mentions
CONLL = [
    ("BC5CDR-chem/train.tsv", 4560, 118170, 5203),
    ("BC5CDR-chem/devel.tsv", 4581, 117453, 5347),
    ("BC5CDR-chem/test.tsv", 4797, 124750, 5385),
    ("BC5CDR-disease/train.tsv", 4560, 118170, 4182),
    ("BC5CDR-disease/devel.tsv", 4581, 117453, 4246),
    ("BC5CDR-disease/test.tsv", 4797, 124750, 4424),
    ("NCBI-disease/train.tsv.gz", 5424, 135701, 5134),
    ("NCBI-disease/devel.tsv", 923, 23969, 787),
    ("NCBI-disease/test.tsv", 940, 24497, 960),
    ("NCBI-disease/IOBES/devel.tsv", 923, 23969, 787),
    ("NCBI-disease/IOBES/test.tsv", 940, 24497, 960),
    ("BC2GM/train.tsv.gz", 12574, 355405, 15197),
    ("BC2GM/devel.tsv", 2519, 71042, 3061),
    ("BC2GM/test.tsv.gz", 5038, 143465, 6325),
    ("JNLPBA/train.tsv.gz", 16807, 445090, 46750),
    ("JNLPBA/devel.tsv", 1739, 47461, 4551),
    ("JNLPBA/test.tsv", 3856, 101039, 8662),
    ("JNLPBA-BioBERT/train.tsv.gz", 14690, 443653, 32178),
    ("JNLPBA-BioBERT/devel.tsv", 3856, 117213, 8575),
    ("JNLPBA-BioBERT/test.tsv", 3856, 114709, 6241),
    ("linnaeus/train.tsv.gz", 11935, 280960, 2119),
    ("linnaeus/devel.tsv", 4078, 93815, 711),
    ("linnaeus/test.tsv.gz", 7142, 164653, 1433),
    ("s800/train.tsv.gz", 5733, 147291, 2557),
    ("s800/devel.tsv", 830, 22217, 384),
    ("s800/test.tsv", 1630, 42298, 767),
    ("AnatEM/train.tsv.gz", 5861, 153823, 6946),
    ("AnatEM/devel.tsv", 2118, 58785, 2139),
    ("AnatEM/test.tsv", 3830, 99976, 4616),
]


@pytest.mark.parametrize(("name", "sentences", "tokens", "mentions"), CONLL, ids=[row[0] for row in CONLL])
def test_conll_files_have_the_sentences_tokens_and_mentions_of_the_sources(
    shared_data: Path, name: str, sentences: int, tokens: int, mentions: int
) -> None:
    documents, rejects = read_all(shared_data / "benchmarks" / name)
    passages = [p for d in documents for p in d.passages]
    # Tokens hold no spaces in these files, so that each sentence has one space fewer than tokens.
    found = (
        len(passages),
        sum(p.text.count(" ") + 1 for p in passages),
        sum(len(d.mentions) for d in documents),
    )
    assert found == (sentences, tokens, mentions)
    assert rejects.count == 0


def test_the_iobes_edition_of_ncbi_disease_has_the_same_mentions(shared_data: Path) -> None:
    folder = shared_data / "benchmarks" / "NCBI-disease"
    for split in ("devel.tsv", "test.tsv"):
        bio, iobes = (read_all(folder / part / split)[0] for part in ("", "IOBES"))
        assert [(d.text, d.mentions) for d in bio] == [(d.text, d.mentions) for d in iobes]


def test_types_of_jnlpba(shared_data: Path) -> None:
    documents, _ = read_all(shared_data / "benchmarks/JNLPBA/test.tsv")
    types = Counter(m.type for d in documents for m in d.mentions)
    assert types == {"protein": 5067, "DNA": 1056, "cell_type": 1921, "cell_line": 500, "RNA": 118}


@pytest.mark.parametrize(
    ("name", "documents", "sentences", "tokens"),
    [
        ("blurb/dev.tsv.gz", 960, 10386, 262268),
        ("blurb/test.tsv", 191, 2076, 51784),
        ("scibert/test.txt", 191, 2064, 51750),
    ],
)
def test_ebm_nlp_has_a_document_for_each_abstract(
    shared_data: Path, name: str, documents: int, sentences: int, tokens: int
) -> None:
    found, _ = read_all(shared_data / "benchmarks/EBM-NLP" / name)
    passages = [p for d in found for p in d.passages]
    assert (len(found), len(passages)) == (documents, sentences)
    assert sum(p.text.count(" ") + 1 for p in passages) == tokens
    assert all(d.id.isdecimal() for d in found)


# file, documents, mentions in the file, relations, mentions with another text, mentions outside the text
DOCUMENTS = [
    ("BC5CDR/CDR_TrainingSet.PubTator.txt.gz", 500, 9385, 1038, 0, 0),
    ("BC5CDR/CDR_DevelopmentSet.PubTator.txt.gz", 500, 9591, 1012, 0, 0),
    ("BC5CDR/CDR_TestSet.PubTator.txt.gz", 500, 9809, 1066, 0, 0),
    ("BC5CDR/CDR_TestSet.BioC.xml.gz", 500, 9928, 1066, 0, 0),
    ("NCBI-disease/original-data/NCBItrainset_corpus.txt.gz", 593, 5145, 0, 0, 0),
    ("NCBI-disease/original-data/NCBIdevelopset_corpus.txt", 100, 787, 0, 0, 0),
    ("NCBI-disease/original-data/NCBItestset_corpus.txt", 100, 960, 0, 0, 0),
    ("BC2GM/original-data/test/test.in", 5000, 6331, 0, 0, 0),
    ("BioRED/Train.PubTator.gz", 400, 13351, 4178, 0, 0),
    ("BioRED/Dev.PubTator", 100, 3533, 1162, 0, 0),
    ("BioRED/Test.PubTator", 100, 3535, 1163, 0, 0),
    ("BioRED/Dev.BioC.XML", 100, 3533, 1162, 0, 0),
    ("BioRED/Dev.BioC.JSON.gz", 100, 3533, 1162, 0, 0),
    ("AnatEM/standoff.tar.gz", 1212, 13701, 0, 0, 0),
    ("tmVar3/tmVar3_Train.PubTator", 342, 7957, 0, 20, 1),
    ("tmVar3/tmVar3_Test.PubTator", 158, 4625, 0, 0, 0),
    ("NLM-Gene/NLMgene_Train.PubTator.gz", 450, 13797, 0, 11, 0),
    ("NLM-Gene/NLMgene_Test.PubTator", 100, 3053, 0, 0, 0),
    ("NLM-Chem/NLMchem_Test.PubTator.gz", 3428, 12411, 0, 0, 0),
    (
        "chemprot/ChemProt_Corpus/chemprot_training/chemprot_training_abstracts.tsv.gz",
        1020,
        25752,
        6437,
        0,
        0,
    ),
    (
        "chemprot/ChemProt_Corpus/chemprot_development/chemprot_development_abstracts.tsv",
        612,
        15567,
        3558,
        0,
        0,
    ),
    ("chemprot/ChemProt_Corpus/chemprot_test_gs/chemprot_test_abstracts_gs.tsv.gz", 800, 20828, 5744, 0, 0),
]


@pytest.mark.parametrize(
    ("name", "documents", "mentions", "relations", "differ", "outside"),
    DOCUMENTS,
    ids=[row[0].rpartition("/")[2] for row in DOCUMENTS],
)
def test_document_files_have_the_counts_of_the_sources(
    shared_data: Path, name: str, documents: int, mentions: int, relations: int, differ: int, outside: int
) -> None:
    found, rejects = read_all(shared_data / "benchmarks" / name)
    assert len(found) == documents
    assert sum(len(d.mentions) for d in found) + rejects.reasons[OUTSIDE] == mentions
    assert sum(len(d.relations) for d in found) == relations
    assert (rejects.reasons[DIFFERS], rejects.reasons[OUTSIDE]) == (differ, outside)


def test_known_quirks_of_the_document_files(shared_data: Path) -> None:
    folder = shared_data / "benchmarks"
    cdr, _ = read_all(folder / "BC5CDR/CDR_TestSet.BioC.xml.gz")
    assert Counter(m.type for d in cdr for m in d.mentions) == {"Chemical": 5394, "Disease": 4534}
    assert sum(len(m.fragments) > 1 for d in cdr for m in d.mentions) == 37
    ncbi, _ = read_all(folder / "NCBI-disease/original-data/NCBItrainset_corpus.txt.gz")
    assert [i for i, count in Counter(d.id for d in ncbi).items() if count > 1] == ["8528200"]
    chem, _ = read_all(folder / "NLM-Chem/NLMchem_Test.PubTator.gz")
    assert len({d.id for d in chem}) == 50


def test_bioreds_three_editions_say_the_same(shared_data: Path) -> None:
    folder = shared_data / "benchmarks/BioRED"
    editions = [read_all(folder / name)[0] for name in ("Dev.PubTator", "Dev.BioC.XML", "Dev.BioC.JSON.gz")]

    def content(document: Document) -> object:
        mentions = sorted((m.start, m.end, m.type, m.ids) for m in document.mentions)
        relations = sorted(
            (r.type, *(a.target for a in r.arguments), r.infons["novel"]) for r in document.relations
        )
        return document.id, document.text, [p.kind for p in document.passages], mentions, relations

    pubtator, xml, from_json = ([content(d) for d in edition] for edition in editions)
    assert pubtator == xml == from_json


def test_ddi_in_both_releases(shared_data: Path) -> None:
    # The authors' release: 714 + 191 documents and 112 of the DrugNER test; 4021 + 979 positive pairs.
    authors, rejects = read_all(shared_data / "benchmarks/ddi/DDICorpus-2013.zip")
    assert (len(authors), sum(len(d.relations) for d in authors)) == (714 + 191 + 112, 4021 + 979)
    assert [r.type for d in authors for r in d.relations].count("") == 1
    assert [";" in item["value"] for item in rejects.items] == [True]
    # The other: 23 of its contiguous mentions are one too high, and all of them are listed.
    other, rejects = read_all(shared_data / "benchmarks/ddi/DDIextraction_2013.tar.gz")
    assert len(other) == 714 + 191
    assert sum(len(m.fragments) == 1 for d in other for m in d.mentions) == 17758
    assert sum(";" not in item["value"] for item in rejects.items) == 23


@pytest.mark.parametrize(
    ("name", "paragraphs", "answers"),
    [("squad/xquad.en.json", 240, 1190), ("covidqa/200423_covidQA.json.gz", 98, 1380)],
)
def test_answers_are_where_they_are_said_to_be(
    shared_data: Path, name: str, paragraphs: int, answers: int
) -> None:
    found, rejects = read_all(shared_data / "benchmarks" / name)
    assert (len(found), sum(len(d.mentions) for d in found)) == (paragraphs, answers)
    assert rejects.reasons[DIFFERS] == rejects.reasons[OUTSIDE] == 0
