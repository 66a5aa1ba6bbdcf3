"""Documents whose splits are lists of ids."""

from __future__ import annotations

import gzip
from pathlib import Path

from biosmith.rejects import Rejects
from biosmith.tasks.listed import find_listed, is_list, read_documents
from biosmith.tasks.tagged import find_splits, load_split


def write_pubtator(path: Path, *ids: int) -> None:
    text = "".join(
        f"{i}|t|Aspirin {i}\n{i}|a|It helps.\n{i}\t0\t7\tAspirin\tT109,T121\tC0004057\n\n" for i in ids
    )
    path.write_bytes(gzip.compress(text.encode()))


def test_medmentions_lists_say_which_documents_are_in_a_split(tmp_path: Path) -> None:
    write_pubtator(tmp_path / "corpus_pubtator.txt.gz", 11, 22, 33)
    for name, ids in (("trng", "33\n11\n"), ("dev", "22\r\n"), ("test", "44"), ("all", "11\n22\n33\n44\n")):
        (tmp_path / f"corpus_pubtator_pmids_{name}.txt").write_text(ids)
    # Once the lists themselves were the splits, with a number for a text.
    splits = find_splits(tmp_path)
    assert sorted(splits) == ["dev", "test", "train"]
    assert {tuple(p.name for p in paths[1:]) for paths in splits.values()} == {("corpus_pubtator.txt.gz",)}
    train = load_split(tmp_path, "train")
    assert [s.words for s in train.sentences[::2]] == [("Aspirin", "11"), ("Aspirin", "33")]
    assert train.sentences[0].tags == ("B-T109,T121", "O")
    rejects = Rejects()
    assert list(read_documents(splits["test"], rejects)) == []
    assert rejects.items[0]["record"] == "44"
    assert rejects.items[0]["reason"] == "is the id of no document beside this list"


def test_files_named_by_other_numbers_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "ALL").mkdir()
    (tmp_path / "pmcids_train.txt").write_text("PMC100, 200\n")
    for id in (100, 200):
        text = f"<passage><offset>0</offset><text>No {id}.</text></passage>"
        (tmp_path / f"ALL/{id}_v1.xml").write_text(
            f"<collection><document><id>{id}</id>{text}</document></collection>"
        )
    (tmp_path / "ALL/300_v1.xml").write_text("this one is broken")
    (tmp_path / "README.txt").write_text("What the corpus is.")
    rejects = Rejects()
    found = list(read_documents(find_listed(tmp_path)["train"], rejects))
    assert [(d.id, d.text) for d in found] == [("100", "No 100."), ("200", "No 200.")]
    assert rejects.count == 0


def test_a_list_holds_numbers_and_nothing_else(tmp_path: Path) -> None:
    texts = {"ids.txt": "PMID:1\nPMC2, 3\n", "prose.txt": "1 mouse", "none.txt": "", "tags.tsv": "1\tO\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert [name for name in texts if is_list(tmp_path / name)] == ["ids.txt"]
