"""Word counts are exact, bounded and independent of how the work is shared out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biosmith.artefact import Manifest, describe_files
from biosmith.errors import BadInput, UsageError
from biosmith.text.document import Document, Passage
from biosmith.text.formats.parquet import ParquetWriter
from biosmith.tokens import counts as counting
from biosmith.tokens.counts import count_words
from biosmith.tokens.parts import list_parts
from biosmith.tokens.schemes import Kind, Scheme

MakeCorpus = Callable[..., Path]
MakeDocuments = Callable[..., list[Document]]
SCHEMES = [
    Scheme(kind, cased=cased) for kind in ("wordpiece", "sentencepiece", "bpe") for cased in (True, False)
]


def words_by_the_library(scheme: Scheme, text: str) -> list[str]:
    """What the tokenizers library makes of a whole text, without any short cut."""
    normalized = scheme.normalizer().normalize_str(text)
    words = [word for word, _ in scheme.pre_tokenizer().pre_tokenize_str(normalized)]
    words = [word.removeprefix("▁") for word in words] if scheme.kind == "sentencepiece" else words
    return [word for word in words if word != "Ġ"]  # a space with no word after it is not a word


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: f"{s.kind}-{'cased' if s.cased else 'uncased'}")
def test_counts_are_those_of_the_library_over_every_passage(
    scheme: Scheme, corpus: Path, make_documents: MakeDocuments
) -> None:
    expected: Counter[str] = Counter()
    for document in make_documents(60):  # the documents of the corpus
        for passage in document.passages:
            expected.update(words_by_the_library(scheme, passage.text))
    counts = count_words(corpus, scheme)
    assert dict(zip(counts.words, counts.counts, strict=True)) == dict(expected)
    assert (counts.total, counts.distinct, counts.documents) == (expected.total(), len(expected), 60)


@pytest.mark.parametrize("kind", ["wordpiece", "sentencepiece", "bpe"])
@given(chunk=st.text(alphabet=st.characters(codec="utf-8", exclude_characters=" "), max_size=12))
@settings(max_examples=200, deadline=None)
def test_the_words_of_any_chunk_are_those_of_the_library(kind: Kind, chunk: str) -> None:
    for cased in (True, False):
        scheme = Scheme(kind, cased=cased)
        words = [word for word in scheme.word_cutter()(chunk) if word != "Ġ"]
        assert words == words_by_the_library(scheme, chunk)


def test_order_is_by_count_then_by_code_point(corpus: Path) -> None:
    counts = count_words(corpus, Scheme())
    pairs = list(zip(counts.counts, counts.words, strict=True))
    assert pairs == sorted(pairs, key=lambda pair: (-pair[0], pair[1]))


def test_workers_and_memory_do_not_change_the_counts(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = count_words(corpus, Scheme())
    assert count_words(corpus, Scheme(), workers=2) == whole
    monkeypatch.setattr(counting, "CHUNKS_IN_MEMORY", 10)  # written down after every batch of documents
    monkeypatch.setattr(counting, "min", lambda most, _: 3, raising=False)  # three partitions
    assert count_words(corpus, Scheme()) == whole


def test_the_tail_is_cut_at_a_count_not_inside_a_tie(corpus: Path) -> None:
    whole = count_words(corpus, Scheme())
    cut = count_words(corpus, Scheme(), most_words=50)
    assert len(cut.words) <= 50
    assert cut.words == whole.words[: len(cut.words)]
    assert whole.counts[len(cut.words)] < cut.least == cut.counts[-1]
    assert (cut.total, cut.distinct) == (whole.total, whole.distinct)


def test_overlong_words_are_left_out(make_corpus: MakeCorpus) -> None:
    document = Document.build("1", [Passage("abstract", f"short {'ACGT' * 30} words")])
    assert count_words(make_corpus([document], 1, 1), Scheme()).words == ["short", "words"]


def test_a_corpus_without_words_or_documents_is_refused_by_name(
    make_corpus: MakeCorpus, tmp_path: Path
) -> None:
    blank = make_corpus([Document.build("1", [Passage("abstract", "  ")])], 1, 1)
    with pytest.raises(BadInput, match="has no words"):
        count_words(blank, Scheme())
    with ParquetWriter(tmp_path / "part-00000.parquet"):
        pass
    Manifest("corpus", files=describe_files(tmp_path)).save(tmp_path)
    with pytest.raises(BadInput, match="has no documents"):
        list_parts(tmp_path)


def test_damaged_shards_are_named(
    make_corpus: MakeCorpus, make_documents: MakeDocuments, tmp_path: Path
) -> None:
    folder = make_corpus(make_documents(4))
    shard = folder / "part-00001.parquet"
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(BadInput, match=r"part-00001\.parquet: is not a readable Parquet"):
        list_parts(folder)
    shard.unlink()
    with pytest.raises(BadInput, match=r"part-00001\.parquet: is missing"):
        list_parts(folder)
    with pytest.raises(UsageError, match="has no manifest"):
        list_parts(tmp_path)


def test_an_error_in_a_worker_names_the_file(make_corpus: MakeCorpus, make_documents: MakeDocuments) -> None:
    folder = make_corpus(make_documents(40), 1, 4)
    shard = folder / "part-00000.parquet"
    data = bytearray(shard.read_bytes())
    data[20:2000] = bytes(1980)  # the pages, not the footer
    shard.write_bytes(data)
    with pytest.raises(BadInput, match=r"part-00000\.parquet: is damaged"):
        count_words(folder, Scheme(), workers=2)
