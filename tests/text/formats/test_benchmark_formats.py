"""The formats that only single benchmarks use: small files of ours in their shape."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Argument, Document
from biosmith.text.formats import read
from biosmith.text.formats.offsets import UNCOUNTED


def read_one(tmp_path: Path, name: str, content: str, rejects: Rejects | None = None) -> list[Document]:
    (tmp_path / name).write_text(content, encoding="utf-8")
    return list(read(tmp_path / name, rejects=rejects or Rejects(strict=True)))


SENTENCE = "BC2GM000000001 The p53 gene and its product TP53.\n"


def test_bc2gm_counts_without_white_space_and_inclusive(tmp_path: Path) -> None:
    # Without spaces: "Thep53geneanditsproductTP53." - p53 is 3 to 5, "p53 gene" 3 to 9, TP53 23 to 26.
    (tmp_path / "GENE.eval").write_text(
        "BC2GM000000001|3 9|p53 gene\nBC2GM000000001|23 26|TP53\n", encoding="utf-8"
    )
    (tmp_path / "ALTGENE.eval").write_text("BC2GM000000001|3 5|p53\n", encoding="utf-8")
    (document,) = read_one(tmp_path, "test.in", SENTENCE)
    assert [(m.start, m.end, m.text) for m in document.mentions] == [(4, 12, "p53 gene"), (29, 33, "TP53")]
    assert document.mentions[0].infons == {"alternatives": "4-7"}
    # The folder holds three files and one document; the .eval files are not set aside, for they were read.
    assert len(list(read(tmp_path, rejects=Rejects(strict=True)))) == 1


@pytest.mark.parametrize("id", ["BC2GM000000001", "P00000001T0076", "P00000001A0076"])
def test_bc2gm_names_sentences_of_titles_and_of_abstracts(tmp_path: Path, id: str) -> None:
    # The test set's, and the training set's from titles (its first line) and from abstracts.
    (tmp_path / "GENE.eval").write_text(f"{id}|3 5|p53\n", encoding="utf-8")
    (document,) = read_one(tmp_path, "train.in", f"{id} The p53 gene.\n")
    assert (document.id, [m.text for m in document.mentions]) == (id, ["p53"])


def test_mentions_of_bc2gm_in_an_archive_are_told_to_be_left_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bc2gm.zip", "w") as archive:
        archive.writestr("train/train.in", SENTENCE)
        archive.writestr("train/GENE.eval", "BC2GM000000001|3 5|p53\n")
    rejects = Rejects()
    assert [len(d.mentions) for d in read(tmp_path / "bc2gm.zip", rejects=rejects)] == [0]
    (item,) = rejects.items
    assert item["file"].endswith("bc2gm.zip/train/GENE.eval")
    assert item["reason"] == "mentions of this format are not read in archives; unpack it"


def test_bc2gm_mentions_of_unknown_sentences_and_wrong_places_are_listed(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "GENE.eval.gz", "wt", encoding="utf-8") as stream:
        stream.write("BC2GM000000001|3 99|far\nBC2GM9|0 1|x\nnonsense\n")
    rejects = Rejects()
    (document,) = read_one(tmp_path, "test.in", SENTENCE, rejects)
    assert document.mentions == ()
    assert [item["record"] for item in rejects.items] == ["line 3", "line 1", "BC2GM9"]


DDI = """<?xml version="1.0"?><document id="DDI-X.d1">
<sentence id="s0" text="Aspirin and loop or thiazide diuretics.&#xd;&#xa;">
<entity id="e0" charOffset="0-6" type="drug" text="Aspirin"/>
<entity id="e1" charOffset="12-15;29-37" type="group" text="loop diuretics"/>
<entity id="e2" charOffset="21-28" type="group" text="thiazide"/>
<pair id="p0" e1="e0" e2="e1" ddi="true" type="effect"/><pair id="p1" e1="e0" e2="e2" ddi="false"/>
</sentence><sentence id="s1" text="No Aspirin."><entity id="e3" charOffset="3-9" type="drug" text="Aspirin"/></sentence>
</document>"""


def test_ddi_offsets_are_inclusive_discontinuous_and_count_the_sentence(tmp_path: Path) -> None:
    rejects = Rejects()
    (document,) = read_one(tmp_path, "1.xml", DDI, rejects)
    loop = document.mentions[1]
    assert (loop.text, loop.fragments) == ("loop diuretics", ((12, 16), (29, 38)))
    # The second sentence begins after the 41 characters of the first (its line end counts) and one space, at 42.
    assert document.mentions[-1].text == "Aspirin"
    assert document.mentions[-1].start == 42 + 3
    # "thiazide" is stated one too high: the text's own characters are kept, and it is listed.
    assert document.mentions[2].text == "hiazide "
    assert [item["record"] for item in rejects.items] == ["e2"]
    (relation,) = document.relations
    assert (relation.type, relation.arguments) == ("effect", (Argument("e1", "e0"), Argument("e2", "e1")))


def test_chemprot_tables_are_joined(tmp_path: Path) -> None:
    (tmp_path / "x_entities.tsv").write_text("7\tT1\tCHEMICAL\t0\t7\tAspirin\n7\tT2\tGENE-Y\t18\t23\tCOX-1\n")
    (tmp_path / "x_relations.tsv").write_text("7\tCPR:4\tY \tINHIBITOR\tArg1:T1\tArg2:T2\n")
    (tmp_path / "x_gold_standard.tsv").write_text("7\tCPR:4\tArg1:T1\tArg2:T2\n")
    (tmp_path / "x_abstracts.tsv").write_text('7\tAspirin inhibits.\tCOX-1 is "bound.\n')
    (document,) = read(tmp_path, rejects=Rejects(strict=True))
    assert [(m.id, m.text) for m in document.mentions] == [("T1", "Aspirin"), ("T2", "COX-1")]
    (relation,) = document.relations
    assert relation.arguments == (Argument("Arg1", "T1"), Argument("Arg2", "T2"))
    assert relation.infons == {"evaluated": "Y", "name": "INHIBITOR"}


def test_the_first_abstract_of_drugprot_may_be_missing(tmp_path: Path) -> None:
    first, second = read_one(tmp_path, "x_abstracs.tsv", "1\tEditorial\t\n2\tTwo words\tAspirin helps.\n")
    assert (first.id, first.text.strip(), second.text) == ("1", "Editorial", "Two words Aspirin helps.")


def test_a_table_of_numbers_and_words_is_not_taken_for_chemprots(tmp_path: Path) -> None:
    (tmp_path / "S800.tsv").write_text(
        "9606\tbmc001:2222\t4\t8\thuman\n", encoding="utf-8"
    )  # Species-800's own
    with pytest.raises(BadInput, match="text of no known format"):
        list(read(tmp_path / "S800.tsv", rejects=Rejects()))


def test_chemdner_offsets_count_from_the_title_and_from_the_abstract(tmp_path: Path) -> None:
    rows = ["7\tA\t3\t10\taspirin\tTRIVIAL", "7\tT\t0\t4\tNaCl\tFORMULA", "7\tA\t0\t99\tWe\tFAMILY"]
    rows += ["7\tX\t0\t1\tN\tFAMILY", "8\tA\t0\t1\tN\tFAMILY"]
    (tmp_path / "training.annotations.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    rejects = Rejects()
    text = '\ufeff7\tNaCl "in mice.\tNo aspirin.\r\n9\tOnly\ttwo\tand more\n'
    (document,) = read_one(tmp_path, "training.abstracts.txt", text, rejects)
    assert document.text == 'NaCl "in mice. No aspirin.'
    assert [(m.start, m.end, m.text, m.type) for m in document.mentions] == [
        (0, 4, "NaCl", "FORMULA"),
        (18, 25, "aspirin", "TRIVIAL"),
    ]
    records = [item["record"] for item in rejects.items]
    assert records == [f"*.annotations.txt, line {n}" for n in (4, 3)] + [
        "line 2",
        "*.annotations.txt, line 5",
    ]
    # Both files are one document: the annotations are no text of their own.
    assert [d.id for d in read(tmp_path, rejects=Rejects())] == ["7"]


def test_the_test_set_of_chemprot_has_other_names_and_may_be_compressed(tmp_path: Path) -> None:
    (tmp_path / "x_entities_gs.tsv").write_text(
        "7\tT1\tCHEMICAL\t0\t7\tAspirin\n8\tT1\tCHEMICAL\t0\t7\tAspirin\nbad\n"
    )
    with gzip.open(tmp_path / "x_abstracts_gs.tsv.gz", "wt") as stream:
        stream.write("7\tAspirin inhibits.\tIt is bound.\n")
    rejects = Rejects()
    (document,) = read(tmp_path, rejects=rejects)
    assert len(document.mentions) == 1
    assert sorted(rejects.reasons) == ["has 1 columns, not 6", "is of an abstract that is not in the file"]


def squad(text: str, *answers: tuple[str, int]) -> str:
    qas = [
        {
            "id": n,
            "question": "What?",
            "answers": [{"text": answer, "answer_start": start}],
            "is_impossible": False,
        }
        for n, (answer, start) in enumerate(answers)
    ]
    return json.dumps({"data": [{"title": "T", "paragraphs": [{"context": text, "qas": qas}]}]})


def test_answers_of_squad_are_mentions(tmp_path: Path) -> None:
    (document,) = read_one(tmp_path, "x.json", squad("Aspirin helps.", ("Aspirin", 0), (" helps", 8)))
    assert [(m.start, m.text) for m in document.mentions] == [(0, "Aspirin"), (8, "helps")]
    assert document.id == "T-1"
    assert [q["id"] for q in json.loads(document.infons["questions"])] == ["0", "1"]


def test_a_context_whose_leading_white_space_is_not_counted_is_read_without_it(tmp_path: Path) -> None:
    # As one article of COVID-QA: the context begins with line breaks that answer_start does not count.
    rejects = Rejects()
    (document,) = read_one(tmp_path, "x.json", squad(" \n\nAspirin helps.", ("helps", 8)), rejects)
    assert (document.text, document.mentions[0].text) == ("Aspirin helps.", "helps")
    assert list(rejects.reasons) == [UNCOUNTED]


def test_an_impossible_question_is_marked(tmp_path: Path) -> None:
    value: Any = json.loads(squad("x", ("x", 0)))
    value["data"][0]["paragraphs"][0]["qas"][0] |= {"answers": [], "is_impossible": True}
    (document,) = read_one(tmp_path, "x.json", json.dumps(value))
    assert document.mentions == ()
    assert json.loads(document.infons["questions"]) == [{"id": "0", "question": "What?", "impossible": True}]


def test_pubmedqa_gives_question_and_labelled_sections(tmp_path: Path) -> None:
    entry = {
        "QUESTION": "Does it?",
        "CONTEXTS": ["We saw.", "It did."],
        "LABELS": ["AIM", "RESULTS"],
        "LONG_ANSWER": "Yes, it does.",
        "final_decision": "yes",
    }
    (document,) = read_one(tmp_path, "x.json", json.dumps({"21645374": entry}))
    assert [(p.kind, p.label) for p in document.passages] == [
        ("question", ""),
        ("abstract", "AIM"),
        ("abstract", "RESULTS"),
    ]
    assert "Yes, it does" not in document.text  # the conclusion would give the answer away
    assert document.infons == {"long_answer": "Yes, it does.", "final_decision": "yes"}


@pytest.mark.parametrize(
    "content", [squad("Aspirin helps."), json.dumps({"1": {"QUESTION": "Does it?", "CONTEXTS": ["It did."]}})]
)
def test_a_byte_order_mark_before_json_makes_no_difference(tmp_path: Path, content: str) -> None:
    assert read_one(tmp_path, "x.json", f"\ufeff{content}") == read_one(tmp_path, "x.json", content)


TABLES = [
    ('index\tsentence\tlabel\n0\tThe "gene is @GENE$.\t1\n', ["x-0"], {"label": "1"}),
    ("The gene is @GENE$.\t1\nAnother one here.\t0\n", ["x-1", "x-2"], {"label": "1"}),
    ("7.T1.T2\tThe gene is @GENE$.\tfalse\n", ["7.T1.T2"], {"label": "false"}),
    ("labels\tsentence\tindex\n0_0,1_1\tThe gene.\t22_s0\n", ["22_s0"], {"labels": "0_0,1_1"}),
    ("pair_id\tsent1\tsent2\tscore\n88\tOne here.\tTwo here.\t0.5\n", ["88"], {"score": "0.5"}),
]


@pytest.mark.parametrize(("content", "ids", "infons"), TABLES)
def test_tables_are_known_by_their_header_or_shape(
    tmp_path: Path, content: str, ids: list[str], infons: dict[str, str]
) -> None:
    documents = read_one(tmp_path, "x.tsv", content)
    assert [d.id for d in documents] == ids
    assert documents[0].infons == infons
    assert all(p.kind == "sentence" for d in documents for p in d.passages)


def test_the_case_of_a_header_makes_no_difference(tmp_path: Path) -> None:
    content = "PMID\tTitle\tAbstract\tJournal\n7\tGout.\tIt hurts.\tLancet\n"
    (document,) = read_one(tmp_path, "x.tsv", content)
    assert document.id == "7"
    assert [(p.kind, p.text) for p in document.passages] == [("title", "Gout."), ("abstract", "It hurts.")]
    assert document.infons == {"Journal": "Lancet"}


def test_bytes_that_are_not_utf8_cost_their_row_alone(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_bytes(b"id\tsentence\n1\tOne here.\n2\tM\xe9ni\xe8re here.\n3\tThree here.\n")
    rejects = Rejects()
    assert [d.id for d in read(tmp_path / "x.tsv", rejects=rejects)] == ["1", "3"]
    assert [(i["record"], i["reason"][:9]) for i in rejects.items] == [("line 3", "not UTF-8")]


def test_an_unbalanced_quote_swallows_no_row(tmp_path: Path) -> None:
    rows = [f'{n}\tA "quoted sentence {n}.\t1' for n in range(20)]
    assert len(read_one(tmp_path, "x.tsv", "index\tsentence\tlabel\n" + "\n".join(rows))) == 20


def test_a_row_with_a_missing_column_is_set_aside_by_its_line(tmp_path: Path) -> None:
    rejects = Rejects()
    content = "index\tsentence\tlabel\n0\tGood one.\t1\n1\tNo label.\n2\tGood two.\t0\n"
    assert len(read_one(tmp_path, "x.tsv", content, rejects)) == 2
    (item,) = rejects.items
    assert (item["record"], item["reason"]) == (
        "line 3",
        "has 2 columns, not the 3 of index, sentence, label",
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x_pmid.tsv", "22355784.txt,20862378.txt,23263186.txt,19737566.txt,12577239.txt"),
        ("x_files.tsv", "".join(f"train/DrugBank/Drug {n}_ddi.xml\n" for n in "abcdef")),
        ("x.list", "".join(f"PMC-104463{n}-sec-01\n" for n in range(6))),
        ("labels.txt", "< < <Sustaining proliferative signaling--Receptors AND< < "),
        ("splits.json", '{"test": ["12377809", "26163474"], "fold0": {}}'),
        ("truth.json", '{"12377809": "yes", "26163474": "no"}'),
    ],
)
def test_lists_of_ids_and_labels_are_refused_as_without_text(tmp_path: Path, name: str, content: str) -> None:
    rejects = Rejects()
    assert read_one(tmp_path, name, content, rejects) == []
    assert "no text" in rejects.items[0]["reason"]


EU_ADR_ROWS = (
    "1\tTrue\tconcept\tasthma\t10\t16\t-\t-\t-\t-\tDisorder\t",
    "2\tTrue\trelation\tasthma\tADRB2\t-\t-\t10:16\t30:35\tPA\t-\tt_10022882_rel_1",
)


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_the_annotations_of_eu_adr_are_no_text(tmp_path: Path, end: str) -> None:
    rejects = Rejects()
    content = (end or "\n").join(EU_ADR_ROWS) + end
    assert read_one(tmp_path, "10022882.txt", content, rejects) == []
    assert "annotations of EU-ADR but not the abstracts" in rejects.items[0]["reason"]


@pytest.mark.parametrize(
    "content",
    [
        "The concept of a relation.\n",
        "1\tTrue\tconcept\n",
        "\n".join((*EU_ADR_ROWS, "A sentence of the abstract.")),
        EU_ADR_ROWS[0].replace("concept", "Concept"),
    ],
)
def test_what_is_like_eu_adr_in_part_is_text_as_before(tmp_path: Path, content: str) -> None:
    (document,) = read_one(tmp_path, "x.txt", content)
    assert document.text.split() == content.split()


@pytest.mark.parametrize(
    ("text_file", "text", "mentions_file", "mentions", "found"),
    [
        (
            "x.in",
            ["BC2GM000000001 TNF up", "BC2GM000000002 TNF d\xff", "BC2GM000000003 IL6 up"],
            "GENE.eval",
            [
                "BC2GM000000001|0 2|TNF",
                "BC2GM000000002|0 2|TNF",
                "BC2GM000000003|0 2|IL\xff",
                "BC2GM000000003|0 2|IL6",
            ],
            {"BC2GM000000001": ["TNF"], "BC2GM000000003": ["IL6"]},
        ),
        (
            "x.abstracts.txt",
            ["1\tTNF\tIt rises here.", "2\tTNF\tIt \xff.", "3\tIL6\tIt rises here."],
            "x.annotations.txt",
            ["1\tT\t0\t3\tTNF\tG", "3\tT\t0\t3\tIL\xff\tG", "3\tT\t0\t3\tIL6\tG"],
            {"1": ["TNF"], "3": ["IL6"]},
        ),
        (
            "x_abstracts.tsv",
            ["1\tTNF rises.\tIt rises here.", "2\tTNF rises.\tIt \xff.", "3\tIL6 rises.\tIt rises here."],
            "x_entities.tsv",
            ["1\tT1\tG\t0\t3\tTNF", "3\tT1\tG\t0\t3\tIL\xff", "3\tT2\tG\t0\t3\tIL6"],
            {"1": ["TNF"], "3": ["IL6"]},
        ),
        ("x.txt", ["TNF up", "IL6 up"], "x.ann", ["T1\tG 0 3\tT\xffF", "T2\tG 7 10\tIL6"], {"x": ["IL6"]}),
    ],
)
def test_a_bad_byte_costs_its_line_and_not_the_rest(
    tmp_path: Path,
    text_file: str,
    text: list[str],
    mentions_file: str,
    mentions: list[str],
    found: dict[str, list[str]],
) -> None:
    # "\xff" alone is no UTF-8.
    for name, lines in ((text_file, text), (mentions_file, mentions)):
        (tmp_path / name).write_bytes("".join(f"{line}\n" for line in lines).encode("latin-1"))
    rejects = Rejects()
    documents = list(read(tmp_path, rejects=rejects))
    assert {d.id: [m.text for m in d.mentions] for d in documents} == found
    damaged = [item for item in rejects.items if item["reason"].startswith("not UTF-8")]
    assert len(damaged) == sum("\xff" in line for line in text + mentions)
    assert all("line " in item["record"] and "\ufffd" in item["value"] for item in damaged)


def test_a_header_may_have_names_of_several_words(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(
        "PMID\tTitle\tPublication Date\tAbstract\n7\tA title.\t2020\tSome text.\n", encoding="utf-8"
    )
    (document,) = read(path, rejects=Rejects(strict=True))
    assert (document.id, document.text, document.infons) == (
        "7",
        "A title. Some text.",
        {"Publication Date": "2020"},
    )


def test_sentences_whose_labels_look_like_tags_are_a_table(tmp_path: Path) -> None:
    rows = ["the mass is smooth and round\tB\n", "the mass has spikes\tM\n"] * 3
    (tmp_path / "train.tsv").write_text("".join(rows), encoding="utf-8")
    documents = list(read(tmp_path / "train.tsv", rejects=Rejects(strict=True)))
    assert [d.infons["label"] for d in documents] == ["B", "M"] * 3
    assert documents[0].text == "the mass is smooth and round"


@pytest.mark.parametrize(("name", "separator"), [("x.tsv", "\t"), ("x.csv", ",")])
def test_a_second_column_of_one_name_is_not_lost(tmp_path: Path, name: str, separator: str) -> None:
    rows = [["id", "text", "text"], ["1", "One text.", "Another."]]
    (tmp_path / name).write_text("".join(separator.join(row) + "\n" for row in rows), encoding="utf-8")
    (document,) = read(tmp_path / name, rejects=Rejects(strict=True))
    assert (document.text, document.infons) == ("One text.", {"text 2": "Another."})


def test_an_article_of_squad_outside_of_data_is_no_empty_file(tmp_path: Path) -> None:
    rejects = Rejects()
    (tmp_path / "x.json").write_text('{"title": "T", "paragraphs": [{"context": "x", "qas": []}]}')
    assert list(read(tmp_path / "x.json", rejects=rejects)) == []
    assert [item["reason"] for item in rejects.items] == ['has no articles, which are in the list "data"']


def test_ddi_in_a_namespace_is_read(tmp_path: Path) -> None:
    text = (
        '<document id="d"{}><sentence id="s" text="Aspirin helps."><entity id="e" charOffset="0-6" type="drug" '
        'text="Aspirin"/></sentence></document>'
    )
    for name, namespace in (("plain", ""), ("named", ' xmlns="http://example.org/ddi"')):
        (tmp_path / f"{name}.xml").write_text(text.format(namespace), encoding="utf-8")
    (plain,), (named,) = (list(read(tmp_path / f"{name}.xml")) for name in ("plain", "named"))
    assert named == plain and plain.mentions
