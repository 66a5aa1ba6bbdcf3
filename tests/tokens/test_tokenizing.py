"""`tokenize`: the same store for any number of workers and after any stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from biosmith.artefact import load_manifest
from biosmith.cli import main
from biosmith.errors import DONE, FAILED, WRONG_CALL, BadInput, UsageError
from biosmith.processes import hold_output
from biosmith.text.document import Document, Passage
from biosmith.text.sentences import split
from biosmith.tokens import tokenizing
from biosmith.tokens.parts import list_parts
from biosmith.tokens.store import TokenStore
from biosmith.tokens.tokenizing import JOURNAL, tokenize_corpus
from biosmith.tokens.vocabulary import load_vocabulary

MakeCorpus = Callable[..., Path]
MakeDocuments = Callable[..., list[Document]]


def contents(folder: Path) -> dict[str, str]:
    """Digests of all files but the manifest."""
    return {name: described["digest"] for name, described in load_manifest(folder, "tokens").files.items()}


@pytest.mark.parametrize("kind", ["uncased", "sentencepiece", "bpe"])
def test_a_store_decodes_to_what_the_tokenizer_makes_of_the_text(
    corpus: Path, vocabularies: dict[str, Path], make_documents: MakeDocuments, tmp_path: Path, kind: str
) -> None:
    tokenizer = load_vocabulary(vocabularies[kind]).tokenizer
    store = tokenize_corpus(corpus, vocabularies[kind], tmp_path / "store")
    documents = make_documents(60)  # those of the corpus
    assert store.documents == len(documents)
    tokens = store.gather(np.arange(store.documents))
    words = sentences = 0
    for number, document in enumerate(documents):
        cut = slice(tokens.offsets[number], tokens.offsets[number + 1])
        encodings = [tokenizer.encode(p.text, add_special_tokens=False) for p in document.passages]
        assert tokens.ids[cut].tolist() == [i for e in encodings for i in e.ids]
        assert tokenizer.decode(tokens.ids[cut].tolist()) == tokenizer.decode(
            [i for e in encodings for i in e.ids]
        )
        words += sum(len(set(e.word_ids)) for e in encodings)
        sentences += sum(len(split(p.text)) for p in document.passages)
    assert tokens.word_starts.sum() == words == store.manifest.counts["words"]
    assert tokens.sentence_starts.sum() == sentences == store.manifest.counts["sentences"]
    if kind != "sentencepiece":  # whose words are cut at white space only: "fell.However" is one
        assert (tokens.word_starts | ~tokens.sentence_starts).all()


def test_workers_change_nothing_but_speed(
    corpus: Path, vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    for workers in (1, 2):
        tokenize_corpus(
            corpus, vocabularies["wordpiece"], tmp_path / str(workers), workers=workers, shard_tokens=1000
        )
    assert len(contents(tmp_path / "1")) > 3
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_a_stopped_run_goes_on_from_its_last_shard(
    corpus: Path, vocabularies: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"shard_tokens": 1500}
    tokenize_corpus(corpus, vocabularies["wordpiece"], tmp_path / "whole", **settings)
    encode, read = tokenizing._encode_part, []

    def stop_at(limit: int):  # type: ignore[no-untyped-def]
        def encode_or_stop(part):  # type: ignore[no-untyped-def]
            if len(read) == limit:
                raise KeyboardInterrupt
            read.append(part)
            return encode(part)

        return encode_or_stop

    parts = len(list_parts(corpus))
    for limit in (2, 3):  # stopped twice, the second time after one more part
        read.clear()
        monkeypatch.setattr(tokenizing, "_encode_part", stop_at(limit))
        with pytest.raises(KeyboardInterrupt):
            tokenize_corpus(corpus, vocabularies["wordpiece"], tmp_path / "stopped", **settings)
        with pytest.raises(UsageError, match="has no manifest"):
            TokenStore.open(tmp_path / "stopped")
    read.clear()
    monkeypatch.setattr(tokenizing, "_encode_part", stop_at(parts))
    tokenize_corpus(corpus, vocabularies["wordpiece"], tmp_path / "stopped", **settings)
    assert 0 < len(read) < parts  # what was finished was not done again
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
    assert not (tmp_path / "stopped" / JOURNAL).exists()


# Runs `tokenize` and kills itself, as kill -9 does, when it is about to give the shard with this number its name.
KILLED = """
import os, pathlib, signal, sys
from biosmith.tokens import store, tokenizing
corpus, vocabulary, out, number = sys.argv[1:]
rename = pathlib.Path.replace
def replace(self, target):
    if target.name == f"shard-{int(number):05d}.npy":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
pathlib.Path.replace = replace
tokenizing.tokenize_corpus(pathlib.Path(corpus), pathlib.Path(vocabulary), pathlib.Path(out), shard_tokens=1500)
"""


def test_a_run_killed_while_it_writes_leaves_a_store_that_can_be_finished(
    corpus: Path, vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    vocabulary, killed = vocabularies["uncased"], tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(corpus), str(vocabulary), str(killed), "2"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert sorted(path.name for path in killed.glob("shard*")) == ["shard-00000.npy", "shard-00001.npy"]
    assert len(json.loads((killed / JOURNAL).read_text(encoding="utf-8"))["shards"]) == 2
    tokenize_corpus(corpus, vocabulary, killed, shard_tokens=1500)
    tokenize_corpus(corpus, vocabulary, tmp_path / "whole", shard_tokens=1500)
    assert contents(killed) == contents(tmp_path / "whole")
    # Not even the file that was being written is left over.
    assert sorted(path.name for path in killed.iterdir()) == sorted([*contents(killed), "manifest.json"])


def test_an_unfinished_store_of_other_inputs_is_not_mixed_up(
    corpus: Path, vocabularies: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = tokenizing._encode_part

    def stop(part):  # type: ignore[no-untyped-def]
        raise KeyboardInterrupt

    monkeypatch.setattr(tokenizing, "_encode_part", stop)
    with pytest.raises(KeyboardInterrupt):
        tokenize_corpus(corpus, vocabularies["wordpiece"], tmp_path / "out")
    monkeypatch.setattr(tokenizing, "_encode_part", encode)
    with pytest.raises(UsageError, match="another corpus, vocabulary"):
        tokenize_corpus(corpus, vocabularies["uncased"], tmp_path / "out")
    store = tokenize_corpus(corpus, vocabularies["uncased"], tmp_path / "out", resume=False)
    assert not store.vocabulary.cased
    with pytest.raises(UsageError, match="exists already"):
        tokenize_corpus(corpus, vocabularies["uncased"], tmp_path / "out")


def test_a_run_stopped_after_its_manifest_was_written_is_finished_by_the_same_call(
    corpus: Path, vocabularies: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, unlink = tmp_path / "out", Path.unlink

    def stop(path: Path, missing_ok: bool = False) -> None:
        if path.name == JOURNAL:
            raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", stop)
    with pytest.raises(KeyboardInterrupt):
        tokenize_corpus(corpus, vocabularies["wordpiece"], out)
    monkeypatch.undo()
    assert (out / "manifest.json").is_file()
    with pytest.raises(UsageError, match="exists already"):  # other inputs
        tokenize_corpus(corpus, vocabularies["uncased"], out)
    assert tokenize_corpus(corpus, vocabularies["wordpiece"], out).documents
    assert not (out / JOURNAL).exists()


def test_a_journal_that_is_damaged_does_not_keep_a_run_from_starting_again(
    corpus: Path, vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / JOURNAL).write_text("", encoding="utf-8")
    with pytest.raises(BadInput, match="use --no-resume to start again"):
        tokenize_corpus(corpus, vocabularies["wordpiece"], out)
    assert tokenize_corpus(corpus, vocabularies["wordpiece"], out, resume=False).documents


def test_documents_without_text_are_counted_and_left_out(
    make_corpus: MakeCorpus, vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    texts = [
        "lung cells",
        "",
        "\u200b \ufeff",
        "liver",
    ]  # the third is format characters, which BERT takes out
    corpus = make_corpus(
        [Document.build(str(n), [Passage("abstract", t)]) for n, t in enumerate(texts)], 1, 1
    )
    store = tokenize_corpus(corpus, vocabularies["uncased"], tmp_path / "store")
    assert (store.documents, store.manifest.counts["empty"]) == (2, 2)
    nothing = make_corpus([Document.build("1", [Passage("abstract", "\u200b")])], 1, 1)
    with pytest.raises(BadInput, match="no text that gives a token"):
        tokenize_corpus(nothing, vocabularies["uncased"], tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_a_second_process_is_kept_off_a_store_in_the_making(
    corpus: Path, vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    # A second start goes on with the journal of the first and takes away what that is writing.
    out = tmp_path / "store"
    with hold_output(out), pytest.raises(UsageError, match="another process is making"):
        tokenize_corpus(corpus, vocabularies["uncased"], out)
    tokenize_corpus(corpus, vocabularies["uncased"], out)
    assert [path for path in tmp_path.iterdir() if path.suffix == ".lock"] == []


def test_the_command_reports_what_the_store_holds(
    corpus: Path, vocabularies: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["tokenize", str(corpus), "--vocab", str(vocabularies["uncased"]), "--workers", "1"]
    assert main([*arguments, "--out", str(tmp_path / "store"), "--json"]) == DONE
    data = json.loads(capsys.readouterr().out)
    store = TokenStore.open(tmp_path / "store", verify="full")
    assert data["documents"] == store.documents == 60
    assert data["tokens"] == store.tokens
    assert data["words"] == int(store.gather(np.arange(60)).word_starts.sum())
    assert main([*arguments, "--out", str(tmp_path / "store")]) == WRONG_CALL
    assert "exists already" in capsys.readouterr().err
    assert main([*arguments[:-1], "-1", "--out", str(tmp_path / "other")]) == WRONG_CALL
    assert "workers is -1" in capsys.readouterr().err
    assert main([*arguments[:2], "--vocab", str(corpus), "--out", str(tmp_path / "other")]) == WRONG_CALL
    assert "holds no tokenizer" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "tokenizer.json").write_text("{", encoding="utf-8")
    assert (
        main([*arguments[:2], "--vocab", str(tmp_path / "bad"), "--out", str(tmp_path / "other")]) == FAILED
    )


def test_starting_again_takes_nothing_away_that_is_not_of_an_unfinished_store(
    corpus: Path, vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    # A journal may be somebody else's.
    out = tmp_path / "mine"
    out.mkdir()
    (out / "journal.json").write_text("{}", encoding="utf-8")
    (out / "notes.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(UsageError, match=r"mine holds notes\.txt, which is not of an unfinished token store"):
        tokenize_corpus(corpus, vocabularies["wordpiece"], out, resume=False)
    assert (out / "notes.txt").read_text(encoding="utf-8") == "years of work"
