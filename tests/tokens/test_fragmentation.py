"""The report counts pieces by the rules it states, and shows vocabularies side by side."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from biosmith.cli import main
from biosmith.errors import DONE, SET_ASIDE, WRONG_CALL, BadInput, UsageError
from biosmith.text.document import Document, Mention, Passage
from biosmith.text.formats import write
from biosmith.tokens.fragmentation import TERMS, measure, read_samples, read_terms
from biosmith.tokens.vocabulary import load_vocabulary


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two documents with four mentions."""
    first, second = "lymphoma and DNA of lymphoma", "lidocaine-DNA 語"
    documents = [
        Document(
            "1",
            first,
            (Passage("abstract", first),),
            (Mention(0, 8, "lymphoma", "D"), Mention(13, 16, "DNA", "G")),
        ),
        Document(
            "2",
            second,
            (Passage("abstract", second),),
            (Mention(0, 13, "lidocaine-DNA", "C"), Mention(14, 15, "語", "D")),
        ),
    ]
    path = tmp_path / "set.jsonl"
    write(documents, path)
    return path


def test_rates_are_those_counted_by_hand(vocabularies: dict[str, Path], data: Path) -> None:
    vocabulary = load_vocabulary(vocabularies["uncased"])
    pieces = set(vocabulary.pieces)
    assert {"lymphoma", "dna", "lidocaine", "and", "-"} <= pieces
    of = len(vocabulary.tokenizer.encode("of", add_special_tokens=False).ids)
    cut = measure(vocabulary, read_samples([data], limit=10), ["DNA", "lymphoma DNA"])
    # lymphoma, and, DNA, of, lymphoma, lidocaine-DNA (3 pieces), 語 (unknown, one piece): seven words.
    assert cut.words == 7
    assert cut.fragmentation == (4 + of + 3 + 1) / 7
    assert cut.unknown_rate == 1 / 7
    assert cut.terms == {"DNA": ["dna"], "lymphoma DNA": ["lymphoma", "dna"]}
    assert cut.whole_terms == 1
    mentions = cut.mentions["set"]
    # lymphoma, DNA and lidocaine-DNA (three BERT words, three pieces) are whole; what is unknown is not.
    assert (mentions.mentions, mentions.whole) == (4, 3 / 4)
    assert mentions.pieces_a_mention == (1 + 1 + 3 + 1) / 4
    assert mentions.pieces_a_word == (1 + 1 + 3 + 1) / (1 + 1 + 3 + 1)


@pytest.mark.parametrize("kind", ["wordpiece", "sentencepiece", "bpe"])
def test_words_are_cut_as_inside_a_sentence(vocabularies: dict[str, Path], corpus: Path, kind: str) -> None:
    # The sum over single words must be the number of pieces of the running text.
    vocabulary = load_vocabulary(vocabularies[kind])
    sample = read_samples([corpus], limit=20)
    cut = measure(vocabulary, sample)
    from biosmith.tokens.parts import list_parts, read_part

    documents = [d for part in list_parts(corpus) for batch in read_part(part) for d in batch][:20]
    texts = [" ".join(" ".join(passages).split()) for passages in documents]
    pieces = sum(len(vocabulary.tokenizer.encode(text, add_special_tokens=False).ids) for text in texts)
    assert cut.fragmentation == pieces / sum(len(text.split()) for text in texts)


def test_the_seventeen_terms_are_those_of_the_paper(minilm: Path) -> None:
    # Gu et al. (2021), Table 1: BERT's vocabulary has diabetes to promoter, and none of the other eleven.
    assert len(TERMS) == 17
    cut = measure(load_vocabulary(minilm))
    assert [term for term in TERMS if len(cut.terms[term]) == 1] == list(TERMS[:6])
    # Section 3.2 gives these two cuts.
    assert cut.terms["lymphoma"] == ["l", "##ym", "##ph", "##oma"]
    assert cut.terms["acetyltransferase"] == ["ace", "##ty", "##lt", "##ran", "##sf", "##eras", "##e"]
    assert cut.fragmentation is None


def test_report_writes_table_picture_and_json(
    vocabularies: dict[str, Path], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = tmp_path / "terms.txt"
    terms.write_text("# mine\nlymphoma\n\n[odd] term\n", encoding="utf-8")
    folders = [str(vocabularies["wordpiece"]), str(vocabularies["uncased"] / "vocab.txt")]
    arguments = ["vocab", "report", *folders, "--terms", str(terms), "--data", str(data)]
    assert main([*arguments, "--out", str(tmp_path / "report"), "--json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert [each["vocab"] for each in found] == folders
    assert set(found[0]["terms"]) == {"lymphoma", "[odd] term"}
    assert found[0]["fragmentation"] >= 1
    assert found[0]["mentions"]["set"]["mentions"] == 4
    assert json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8")) == found
    assert (tmp_path / "report" / "report.png").read_bytes().startswith(b"\x89PNG")
    assert main(arguments) == DONE
    shown = capsys.readouterr().out
    assert "[odd] term" in shown  # not taken for markup
    assert "kept whole" in shown


def test_a_report_made_again_lists_what_was_set_aside_once(
    vocabularies: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": "1", "text": "fine words"}\n{"id": \n', encoding="utf-8")
    arguments = ["vocab", "report", str(vocabularies["wordpiece"]), "--data", str(bad)]
    for _ in range(2):
        assert main([*arguments, "--out", str(tmp_path / "report"), "--json"]) == SET_ASIDE
        assert len((tmp_path / "report" / "rejects.jsonl").read_text(encoding="utf-8").splitlines()) == 1
    capsys.readouterr()
    assert main(arguments) == SET_ASIDE  # without a folder for the list it is shown
    shown = "".join(capsys.readouterr().err.split())  # lines are broken at the width of the terminal
    assert f"{bad},line2:isnotJSON" in shown


def test_bad_paths_are_named(
    vocabularies: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none.txt").write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"none\.txt: has no terms"):
        read_terms(tmp_path / "none.txt")
    with pytest.raises(UsageError, match="expected terms, one a line"):
        read_terms(tmp_path / "nowhere.txt")
    blank = tmp_path / "blank.jsonl"
    blank.write_text('{"id": "1", "text": "  "}\n', encoding="utf-8")
    with pytest.raises(BadInput, match=r"blank\.jsonl: has no words"):
        read_samples([blank], limit=10)
    assert main(["vocab", "report", str(tmp_path / "nothing")]) == WRONG_CALL
    assert "does not exist" in capsys.readouterr().err


def test_of_a_benchmarks_folder_the_splits_are_counted_and_no_copies_beside_them(
    vocabularies: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The folder as it is passed on holds the corpus in other forms, too, and each mention once in each of them.
    folder = tmp_path / "NCBI-disease"
    (folder / "IOBES").mkdir(parents=True)
    for name in ("train.tsv", "devel.tsv", "test.tsv", "IOBES/devel.tsv"):
        (folder / name).write_text("Gout\tB-Disease\nhurts\tO\n.\tO\n", encoding="utf-8")
    (folder / "corpus.txt").write_text(
        "1|t|Gout hurts.\n1|a|\n1\t0\t4\tGout\tDisease\tD1\n", encoding="utf-8"
    )
    call = ["vocab", "report", str(vocabularies["uncased"]), "--data", str(folder), "--json"]
    assert main(call) == DONE
    (report,) = json.loads(capsys.readouterr().out)
    assert report["mentions"]["NCBI-disease"]["mentions"] == 3


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_no_documents_is_refused(tmp_path: Path, limit: int) -> None:
    (tmp_path / "x.txt").write_text("Some words.", encoding="utf-8")
    with pytest.raises(UsageError, match=r"--limit is .*1 or more"):
        read_samples([tmp_path / "x.txt"], limit=limit)


def test_a_document_that_a_folder_holds_twice_counts_once_and_its_mentions_are_put_together(
    tmp_path: Path,
) -> None:
    # BC5CDR comes as PubTator and BioC, and as two halves of the same sentences, with chemicals and with diseases.
    text = "Lithium carbonate toxicity again"
    for folder, mentions in (("chem", [(0, 17)]), ("disease", [(18, 26)]), ("both", [(0, 17), (18, 26)])):
        (tmp_path / folder).mkdir()
        made = [{"start": a, "end": b, "text": text[a:b], "type": "X"} for a, b in mentions]
        rows = [{"id": "1", "text": text, "mentions": made}, {"id": folder, "text": "again"}]
        (tmp_path / folder / "test.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (sample,) = read_samples([tmp_path], limit=100)
    # "again" stands in the first document and in three others, which have their own ids.
    assert sample.words == {"Lithium": 1, "carbonate": 1, "toxicity": 1, "again": 4}
    assert sample.mentions == {"Lithium carbonate": 1, "toxicity": 1}
    assert (sample.documents, sample.repeated) == (4, 2)


def test_a_text_that_folders_hold_in_different_forms_counts_once_and_the_others_are_told(
    vocabularies: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """BC5CDR as PubTator has documents, its halves have their sentences cut into words."""
    title, abstract = "Lithium carbonate toxicity in (old) mice.", "It was lethal, but rarely seen again."
    for folder in ("BC5CDR", "BC5CDR-chem", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "BC5CDR" / "all.txt").write_text(
        f"1|t|{title}\n1|a|{abstract}\n1\t0\t17\tLithium carbonate\tChemical\tD1\n", encoding="utf-8"
    )
    cut = [re.findall(r"\w+|[^\w\s]", text) for text in (title, abstract)]
    rows = ["".join(f"{word}\t{'B' if word == 'Lithium' else 'O'}\n" for word in words) for words in cut]
    (tmp_path / "BC5CDR-chem" / "test.tsv").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "other" / "test.tsv").write_text(rows[1].replace("lethal", "harmless"), encoding="utf-8")
    (sample,) = read_samples([tmp_path], limit=100)
    assert sample.words["toxicity"] == 1 and sample.words["rarely"] == 2 and sample.words["harmless"] == 1
    assert (sample.documents, sample.repeated) == (2, 2)
    assert sample.mentions == {"Lithium carbonate": 1}
    call = ["vocab", "report", str(vocabularies["uncased"]), "--data", str(tmp_path)]
    assert main(call) == DONE
    assert "2 repeated documents left out" in " ".join(capsys.readouterr().out.split())
    assert main([*call, "--json"]) == DONE
    assert json.loads(capsys.readouterr().out)[0]["repeated"] == 2


def test_a_sentence_that_another_form_ends_elsewhere_counts_once(tmp_path: Path) -> None:
    """BC5CDR's halves end sentences at "St ." and "i . p .", which its documents do not."""
    text = "It was studied in mice at St. Mary's Hospital in Montreal. Male animals were injected i.p. with a solution of it each day."
    for folder in ("BC5CDR", "BC5CDR-chem"):
        (tmp_path / folder).mkdir()
    (tmp_path / "BC5CDR" / "a.jsonl").write_text(json.dumps({"id": "1", "text": text}), encoding="utf-8")
    words = re.sub(r"([.'])", r" \1 ", text).replace(" .", " .\n").split("\n")
    rows = ["".join(f"{word}\tO\n" for word in sentence.split()) for sentence in words]
    (tmp_path / "BC5CDR-chem" / "test.tsv").write_text("\n".join(rows), encoding="utf-8")
    (sample,) = read_samples([tmp_path], limit=100)
    assert (sample.words["Hospital"], sample.words["injected"], sample.words["solution"]) == (1, 1, 1)


def test_what_a_dataset_says_twice_counts_twice(tmp_path: Path) -> None:
    for name in ("train.tsv", "test.tsv"):
        words = ["No", "adverse", "effects", "of", "any", "kind", "were", "seen"]
        (tmp_path / name).write_text(
            "".join(f"{word}\tO\n" for word in words) + "Gout\tB-X\n", encoding="utf-8"
        )
    (sample,) = read_samples([tmp_path], limit=100)
    assert (sample.documents, sample.repeated, sample.words["adverse"]) == (2, 0, 2)


def test_square_brackets_in_names_are_shown(
    vocabularies: dict[str, Path], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vocabulary, text = tmp_path / "v[red]", tmp_path / "set[a].jsonl"
    shutil.copytree(vocabularies["uncased"], vocabulary)
    shutil.copyfile(data, text)
    call = ["vocab", "report", str(vocabulary), "--data", str(text), "--out", str(tmp_path / "o[b]")]
    assert main(call) == DONE
    shown = "".join(capsys.readouterr().out.split())
    assert "v[red]" in shown and "set[a],4mentions" in shown and "/o[b]" in shown
