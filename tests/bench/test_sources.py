"""Datasets beyond BLURB: their counts beside the papers', and the readers of data that each user has to get."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from biosmith.bench.datasets import DATASETS, find_dataset
from biosmith.bench.folds import Folds
from biosmith.bench.listing import list_splits
from biosmith.bench.scoring import score_predictions
from biosmith.bench.suites import SUITES, find_suite
from biosmith.bench.tagging import TaggedDocuments
from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects


def write(path: Path, *rows: Sequence[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


def predict(path: Path, ids: Sequence[object], predictions: Sequence[Any]) -> Path:
    lines = [json.dumps({"id": id, "prediction": p}) for id, p in zip(ids, predictions, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def rows_of(suite: str, data: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows of the datasets that BLURB does not have; those are counted in test_datasets.py."""
    known = [d.about.name for d in find_suite("blurb").datasets]
    datasets = [d for d in find_suite(suite).datasets if d.about.name not in known]
    return {(r["dataset"], r["split"]): r for r in list_splits(datasets, data)}


SPLITS = ("train", "dev", "test")
# What is not at hand (SOURCES-*.md: "not included"), and what differs from the paper for a reason that is named.
MISSING = {(name, split) for name in ("BC4CHEMD", "HoC-BLUE", "LitCovid") for split in SPLITS}
MISSING |= {("BioASQ-factoid", split) for split in SPLITS}
DIFFERENT = {("DDI-BLUE", "train"), ("DDI-BLUE", "dev")}
DIFFERENT |= {("ChemProt-BLUE", split) for split in SPLITS}


def test_bioformers_fifteen_count_what_its_table_counts(shared_data: Path) -> None:
    rows = rows_of("bioformer15", shared_data / "benchmarks")
    assert len(find_suite("bioformer15").datasets) == 15
    assert len(rows) == 11 * 3
    assert {key for key, row in rows.items() if not row["matches"]} == MISSING | DIFFERENT
    assert all(rows[key]["note"] for key in MISSING | DIFFERENT)
    assert all(rows[key]["instances"] is None for key in MISSING)
    assert rows["JNLPBA-BioBERT", "test"]["mentions"] == 6241
    # Lee et al. count 5,330 and 355: training and test of a fold. No development split.
    assert rows["GAD-10", "test"]["whole"] == {"here": 5330, "paper": 5330}
    assert rows["EU-ADR", "test"]["whole"] == {"here": 355, "paper": 355}
    assert rows["EU-ADR", "dev"]["instances"] == 0
    # Relations across sentences are in no instance: 3,458 - 3,430.
    assert rows["ChemProt-BLUE", "test"]["positives"] == 3430


def test_extras_count_what_their_papers_count(shared_data: Path) -> None:
    rows = rows_of("extras", shared_data / "benchmarks")
    different = {
        ("NLM-Chem", "train"),  # files of more than 4 MiB
        ("NLM-Chem", "dev"),
        ("SciCite", "train"),  # SciBERT's subset
        ("SQuAD-v1.1", "test"),  # never published
        ("COVID-QA", "test"),  # the authors' earlier version
    }
    assert {key for key, row in rows.items() if not row["matches"]} == different
    assert all(rows[key]["note"] for key in different)
    mentions = [rows["BioRED", split]["mentions"] for split in SPLITS]
    assert (mentions, sum(mentions)) == ([13351, 3533, 3535], 20419)
    assert [rows["BioRED", split]["relations"] for split in SPLITS] == [4178, 1162, 1163]
    assert (rows["NLM-Chem", "test"]["documents"], rows["NLM-Chem", "test"]["mentions"]) == (50, 12411)
    assert rows["NLM-Gene", "train"]["mentions"] == 13797
    assert rows["tmVar3", "train"]["whole"] == {"here": 500, "paper": 500}
    assert rows["COVID-QA", "test"]["instances"] == 1380
    # 18,896 paragraphs, of which five are there twice.
    assert rows["SQuAD-v1.1", "train"]["contexts"] == 18891


def test_biom_has_squad_2_with_its_unanswerable_questions(shared_data: Path) -> None:
    rows = list_splits([find_dataset("SQuAD-v2.0")], shared_data / "benchmarks")
    dev = next(r for r in rows if r["split"] == "dev")
    assert (dev["instances"], dev["unanswerable"], dev["contexts"], dev["matches"]) == (
        11873,
        5945,
        1204,
        True,
    )
    assert find_dataset("SQuAD-v2.0").about.evaluated == "dev"


def test_every_dataset_says_whose_it_is_and_where_to_get_it(tmp_path: Path) -> None:
    for name in DATASETS:
        about = find_dataset(name).about
        assert about.name == name
        assert about.citation and about.licence and about.folders and about.metric
        with pytest.raises(UsageError) as error:
            find_dataset(name).load(tmp_path, "test")
        assert about.source in str(error.value)
    in_suites = {d.about.name for name in SUITES for d in find_suite(name).datasets}
    assert in_suites == set(DATASETS)


@pytest.mark.parametrize("name", ["BC4CHEMD", "EBM-PICO", "LINNAEUS"])
def test_tagging_files_of_the_user_are_read_whatever_split_they_are(tmp_path: Path, name: str) -> None:
    dataset = find_dataset(name)
    type = dataset.types[0] if hasattr(dataset, "types") else ""
    folder = tmp_path / dataset.about.folders[0]
    for file in ("train.tsv", "devel.tsv", "test.tsv"):
        write(folder / file, ("gout", f"I-{type}"), ("is", "O"), (), ("rare", "O"))
    assert {split: len(dataset.load(tmp_path, split)) for split in SPLITS} == dict.fromkeys(SPLITS, 2)


LITCOVID = (
    "pmid,journal,title,abstract,keywords,pub_type,authors,date1,doi,date2,label\n"
    '34000001,J,"Masks, and ""why""","They help.\nThey are cheap.",,,,,,,Prevention;Transmission\n'
    "34000002,J,A case,One patient.,,,,,,,Case Report\n"
)


def test_litcovid_is_scored_by_micro_f1_on_the_split_that_bioformer_scores(tmp_path: Path) -> None:
    folder = tmp_path / "litcovid"
    folder.mkdir()
    (folder / "BC7-LitCovid-Dev.csv").write_text(LITCOVID, encoding="utf-8")
    dataset = find_dataset("LitCovid")
    instances = dataset.load(tmp_path, "dev")
    assert [i.text for i in instances] == [
        'Masks, and "why" They help.\nThey are cheap.',
        "A case One patient.",
    ]
    assert [(i.id, i.label, i.line) for i in instances] == [
        ("34000001", ("Prevention", "Transmission"), 2),
        ("34000002", ("Case Report",), 4),
    ]
    # Two of three labels found, one made up: precision 2/3, recall 2/3.
    file = predict(tmp_path / "p", ["34000001", "34000002"], [["Prevention"], ["Case Report", "Treatment"]])
    scores = score_predictions(dataset, tmp_path, file)
    assert (scores["split"], scores["value"]) == ("dev", pytest.approx(2 / 3))


def test_a_csv_record_with_an_open_quote_is_named_and_does_not_swallow_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "litcovid"
    folder.mkdir()
    lines = LITCOVID.splitlines(keepends=True)
    bad = '34000003,J,"An open quote,Text.,,,,,,,Treatment\n'
    after = '34000004,J,A title,"Quoted.",,,,,,,Treatment\n'
    text = "".join([*lines, bad, after, "34000005,J,short\n", "34000006,J,t,a,,,,,,,Cure\n"])
    (folder / "train.csv").write_text(text, encoding="utf-8")
    rejects = Rejects()
    instances = find_dataset("LitCovid").load(tmp_path, "train", rejects)
    assert [i.id for i in instances] == ["34000001", "34000002"]
    assert rejects.items[0]["record"] == "line 5"
    assert "quote" in rejects.items[0]["reason"]
    with pytest.raises(BadInput, match=r"train\.csv, line 5: .*quote"):
        find_dataset("LitCovid").load(tmp_path, "train")


def test_csv_records_that_do_not_fit_are_named_by_their_first_line(tmp_path: Path) -> None:
    folder = tmp_path / "litcovid"
    folder.mkdir()
    bad = "34000005,J,short\n34000006,J,t,a,,,,,,,Cure\n34000007,J,t,a,,,,,,,\n"
    (folder / "train.csv").write_text(LITCOVID + bad, encoding="utf-8")
    rejects = Rejects()
    assert len(find_dataset("LitCovid").load(tmp_path, "train", rejects)) == 2
    assert [item["record"] for item in rejects.items] == ["line 5", "line 6", "line 7"]
    assert "has 3 columns, not 11" in rejects.items[0]["reason"]
    assert "'Cure' is unknown; valid: Case Report" in rejects.items[1]["reason"]
    (folder / "dev.csv").write_text("pmid,title\n1,t\n", encoding="utf-8")
    with pytest.raises(BadInput, match="line 1: has no column abstract, label"):
        find_dataset("LitCovid").load(tmp_path, "dev")


def test_macro_f1_of_chemprot_is_the_mean_over_five_relations(tmp_path: Path) -> None:
    # BLUE's file has a header. CPR:3 found (F1 1), CPR:4 taken for CPR:9 (both 0), CPR:5 and CPR:6 do not occur: 1 / 5.
    # Micro F1 would be 1/2; `false`, always right, gives nothing.
    labels = ["CPR:3", "CPR:4", "false", "false"]
    rows = [(f"1.T{i}.T9", "@CHEMICAL$ @GENE$", label) for i, label in enumerate(labels)]
    write(tmp_path / "chemprot" / "blue" / "test.tsv", ("index", "sentence", "label"), *rows)
    file = predict(tmp_path / "p", [r[0] for r in rows], ["CPR:3", "CPR:9", "false", "false"])
    scores = score_predictions(find_dataset("ChemProt-BLUE"), tmp_path, file)
    assert scores["value"] == pytest.approx(1 / 5)
    assert scores["f1"] == 0.5
    nothing = predict(tmp_path / "q", [r[0] for r in rows], ["false"] * 4)
    assert score_predictions(find_dataset("ChemProt-BLUE"), tmp_path, nothing)["value"] == 0.0


def test_folds_are_numbered(tmp_path: Path) -> None:
    folder = tmp_path / "euadr" / "biobert"
    for fold in (1, 2):
        write(folder / str(fold) / "train.tsv", ("a @GENE$ b", 1), (f"c @DISEASE$ {fold}", 0))
        write(folder / str(fold) / "test.tsv", ("index", "sentence", "label"), (0, "d", fold % 2))
    dataset = find_dataset("EU-ADR")
    assert isinstance(dataset, Folds)
    assert [(i.id, i.label, i.line) for i in dataset.load(tmp_path, "train")] == [
        ("0", "1", 1),
        ("1", "0", 2),
    ]
    assert dataset.of_fold(2).load(tmp_path, "test")[0].label == "0"
    assert dataset.of_fold(2).load(tmp_path, "train")[1].text == "c @DISEASE$ 2"
    with pytest.raises(UsageError, match="has folds 1 to 10, not 11"):
        dataset.of_fold(11)
    named = find_dataset("euadr-fold2")
    assert (named.about.name, named.load(tmp_path, "test")[0].label) == ("EU-ADR-fold2", "0")


def test_scicite_is_the_mean_f1_of_three_classes(tmp_path: Path) -> None:
    folder = tmp_path / "scicite"
    folder.mkdir()
    gold = ["background", "background", "method", "result"]
    lines = [json.dumps({"text": f"t{i}", "label": label, "metadata": {}}) for i, label in enumerate(gold)]
    with gzip.open(folder / "test.txt.gz", "wt", encoding="utf-8") as stream:
        stream.write("\n".join(lines))
    # background: 1 of 2 found, 1 of 1 right: 2/3. method: found, but 2 called so: 2/3. result: 1.
    file = predict(tmp_path / "p", range(4), ["background", "method", "method", "result"])
    scores = score_predictions(find_dataset("SciCite"), tmp_path, file)
    assert scores["value"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert scores["accuracy"] == 0.75


def test_json_lines_that_are_no_record_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "scicite"
    folder.mkdir()
    good = '{"text": "t", "label": "result"}'
    text = "\n".join([good, "{", "[]", '{"label": "result"}', '{"text": "t", "label": "other"}', "", good])
    (folder / "dev.jsonl").write_text(text, encoding="utf-8")
    rejects = Rejects()
    assert [(i.id, i.line) for i in find_dataset("SciCite").load(tmp_path, "dev", rejects)] == [
        ("0", 1),
        ("1", 7),
    ]
    assert [item["record"] for item in rejects.items] == ["line 2", "line 3", "line 4", "line 5"]
    assert rejects.items[3]["reason"] == "label 'other' is unknown; valid: background, method, result"


def test_squad_answers_are_strings_and_the_empty_one_says_that_there_is_none(tmp_path: Path) -> None:
    asked = [
        {
            "id": "a",
            "question": "?",
            "is_impossible": False,
            "answers": [{"text": "the gout", "answer_start": 0}],
        },
        {"id": "b", "question": "?", "is_impossible": True, "answers": []},
    ]
    (tmp_path / "squad").mkdir()
    text = json.dumps({"data": [{"paragraphs": [{"context": "the gout is rare", "qas": asked}]}]})
    (tmp_path / "squad" / "dev-v2.0.json").write_text(text, encoding="utf-8")
    dataset = find_dataset("SQuAD-v2.0")
    # "gout is" shares one of its words with "gout" (articles do not count): 2 * 1 / (1 + 2); the other is right.
    scores = score_predictions(dataset, tmp_path, predict(tmp_path / "p", ["a", "b"], ["gout is", ""]))
    assert scores["value"] == pytest.approx((2 / 3 + 1) / 2)
    assert scores["exact_match"] == 0.5
    with pytest.raises(BadInput, match="line 2: a string is expected"):
        score_predictions(dataset, tmp_path, predict(tmp_path / "p", ["a", "b"], ["", None]))


def test_a_mention_that_tags_cannot_say_is_missed_by_everyone(tmp_path: Path) -> None:
    (tmp_path / "BioRED").mkdir()
    text = "1|t|NFkappaB and gout\n1|a|\n1\t2\t8\tkappaB\tGeneOrGeneProduct\tG\n1\t13\t17\tgout\tDiseaseOrPhenotypicFeature\tD\n"
    (tmp_path / "BioRED" / "Test.PubTator").write_text(text, encoding="utf-8")
    dataset = find_dataset("BioRED")
    instances = dataset.load(tmp_path, "test")
    assert isinstance(instances, TaggedDocuments)
    assert [m.reason for m in instances.untaggable] == ["begins or ends inside a word"]
    assert dataset.count(instances)["tagged"] == 1
    # All tags right: gout is found; NFkappaB is tagged whole, which is not the mention. 1 of 2 predicted, 1 of 2 gold.
    scores = dataset.score(instances, [list(instances[0].tags)])
    assert (scores["precision"], scores["recall"], scores["tags"]["f1"]) == (0.5, 0.5, 1.0)
    # Scores add up over sentences, so that any part of a split can be scored.
    assert dataset.score(list(instances), [list(instances[0].tags)])["gold"] == 2


def test_the_mock_suite_brings_its_data(capsys: pytest.CaptureFixture[str]) -> None:
    from biosmith.cli import main

    assert main(["data", "ls", "--suite", "mock", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows and all(row["instances"] for row in rows)
    assert main(["data", "ls", "--suite", "extras"]) == 2
    assert "--data is needed" in capsys.readouterr().err


BIOC = """<collection><document><id>{id}</id><passage><offset>0</offset><text>Aspirin in {id}</text><annotation id="0">
<infon key="type">Chemical</infon><location offset="0" length="7"/><text>Aspirin</text></annotation><annotation id="1">
<infon key="identifier">MESH:D1</infon><infon key="type">MeSH_Indexing_Chemical</infon></annotation></passage></document></collection>"""


def test_nlm_chem_and_nlm_gene_are_read_as_they_are_released(tmp_path: Path) -> None:
    # NLM-Chem of BioCreative VII: a BioC file a split, with index terms that stand nowhere in the text.
    chem, gene = tmp_path / "NLM-Chem", tmp_path / "NLM-Gene/Corpus"
    (gene / "FINAL").mkdir(parents=True)
    chem.mkdir()
    for number, split in enumerate(SPLITS, start=1):
        (chem / f"BC7T2-NLMChem-corpus-{split}.BioC.xml").write_text(BIOC.format(id=number))
        (gene / "FINAL" / f"{number}.BioC.XML").write_text(BIOC.format(id=number))
    # NLM-Gene: a file an abstract, and lists that name those of each split.
    (gene / "Pmidlist.Train.txt").write_text("1\n2\n")
    (gene / "Pmidlist.Test.txt").write_text("3\n")
    rows = list_splits([find_dataset("NLM-Chem"), find_dataset("NLM-Gene")], tmp_path)
    here = {(r["dataset"], r["split"]): r.get("documents") for r in rows}
    assert [here["NLM-Chem", split] for split in SPLITS] == [1, 1, 1]
    assert [here["NLM-Gene", split] for split in SPLITS] == [2, 0, 1]
    (sentence,) = find_dataset("NLM-Gene").load(tmp_path, "test", Rejects(strict=True))
    assert (sentence.words, sentence.tags) == (("Aspirin", "in", "3"), ("B-Chemical", "O", "O"))


def test_a_split_of_documents_that_ends_in_the_middle_is_not_scored(tmp_path: Path) -> None:
    text = "".join(
        f"{i}|t|Aspirin {i}\n{i}|a|It helps.\n{i}\t0\t7\tAspirin\tGene\tD\n\n" for i in range(2000)
    )
    path = tmp_path / "BioRED/Train.PubTator.gz"
    path.parent.mkdir()
    whole = gzip.compress(text.encode())
    path.write_bytes(whole[: len(whole) // 2])
    # Once half of the documents was taken for the split, and a line in the log spoke of offsets.
    dataset = find_dataset("BioRED")
    with pytest.raises(BadInput, match=r"Train.PubTator.gz, after \d+: damaged compression"):
        dataset.load(tmp_path, "train")
    rejects = Rejects()
    assert dataset.load(tmp_path, "train", rejects)
    assert rejects.count == 1
    # A mention that is not where it should be leaves its document as it is.
    path.write_bytes(gzip.compress(text[:200].rpartition("\n\n")[0].replace("0\t7", "1\t7").encode()))
    assert len(dataset.load(tmp_path, "train")) > 2


def test_a_model_is_called_as_the_user_calls_it(tmp_path: Path) -> None:
    """Many models lie in folders of one name, such as a snapshot's or `encoder`: a link names them."""
    from biosmith.bench.model_marks import folder_name

    (tmp_path / "one" / "encoder").mkdir(parents=True)
    (tmp_path / "vae-one").symlink_to(tmp_path / "one" / "encoder")
    assert folder_name(tmp_path / "vae-one") == "vae-one"
    assert folder_name(tmp_path / "one" / "encoder") == "encoder"
    assert folder_name(tmp_path / "one" / "encoder" / "..") == "one"
