"""What `--exclude` keeps out of a corpus."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from biosmith.corpus.build import build_corpus
from biosmith.corpus.exclusion import RUN_WORDS, read_exclusion
from biosmith.corpus.options import BuildOptions
from biosmith.corpus.signatures import run_hashes
from biosmith.errors import BadInput, UsageError

WORDS = [f"word{i}" for i in range(40)]


def jsonl(path: Path, documents: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(d) + "\n" for d in documents), encoding="utf-8")
    return path


def build(folder: Path, documents: list[dict[str, str]], *exclude: Path, workers: int = 1) -> dict:
    source = jsonl(folder / "source.jsonl", documents)
    options = BuildOptions(exclude=tuple(map(str, exclude)), deduplicate=False)
    return dict(build_corpus([source], folder / "corpus", options, workers=workers).counts)


def test_a_document_that_repeats_thirteen_words_is_kept_out_and_one_that_repeats_twelve_stays(
    tmp_path: Path,
) -> None:
    benchmark = jsonl(tmp_path / "benchmark.jsonl", [{"id": "b", "text": " ".join(WORDS[:20])}])
    thirteen = "other text then " + " ".join(WORDS[3:16]) + " and more"
    twelve = "other text then " + " ".join(WORDS[3:15]) + " and more"
    counts = build(tmp_path, [{"id": "13", "text": thirteen}, {"id": "12", "text": twelve}], benchmark)
    assert counts["documents"] == 1
    assert counts["filtered"] == {"excluded": 1}


def test_tokenised_benchmark_text_is_found_in_running_text(tmp_path: Path) -> None:
    # The benchmark's words stand apart, as CoNLL files have them; case and punctuation make no difference.
    tags = tmp_path / "test.tsv"
    text = "Mutations in the BRCA1 gene ( 17q21 ) cause hereditary breast and ovarian cancer , we found ."
    tags.write_text("".join(f"{w}\tO\n" for w in text.split()) + "\n", encoding="utf-8")
    running = (
        "Mutations in the BRCA1 gene (17q21) cause hereditary breast and ovarian cancer, we found. So it is."
    )
    counts = build(
        tmp_path, [{"id": "a", "text": running}, {"id": "b", "text": "Nothing of the kind."}], tags
    )
    assert counts["documents"] == 1


@pytest.mark.parametrize(
    "benchmark",
    [
        # Hyphens, quotation marks and spaces of ASCII, as benchmarks have them, and of Unicode, as articles have them.
        'Loss of IL-6 and TNF-alpha (the "classic" pair) in mice with a naïve genotype changes nothing.',
        # An accent apart from its letter, references that were escaped, a soft hyphen.
        "Loss of IL-6 and TNF-alpha (the &quot;classic&quot; pair) in mice with a nai\u0308ve geno\u00adtype changes nothing.",
    ],
)
def test_other_marks_and_other_spellings_of_characters_make_no_difference(
    tmp_path: Path, benchmark: str
) -> None:
    article = (
        "Loss of IL‑6 and TNF–alpha (the “classic” pair) in\u2009mice with a naïve genotype changes nothing."
    )
    listed = jsonl(tmp_path / "b.jsonl", [{"id": "b", "text": benchmark}])
    other = {"id": "o", "text": "Another text."}
    counts = build(tmp_path, [{"id": "a", "text": article}, other], listed)
    assert counts["filtered"] == {"excluded": 1}


def test_the_same_pmid_is_kept_out_whatever_the_text(tmp_path: Path) -> None:
    benchmark = jsonl(
        tmp_path / "benchmark.jsonl", [{"id": "PMID:77", "title": "Old", "abstract": "Short text."}]
    )
    documents = [
        {"id": "PMID:77", "title": "New", "abstract": "Quite another abstract."},
        {"id": "PMID:78", "title": "Other", "abstract": "A third abstract."},
    ]
    assert build(tmp_path, documents, benchmark)["filtered"] == {"excluded": 1}


def test_a_pubtator_file_keeps_out_abstracts_and_full_texts_of_its_numbers(tmp_path: Path) -> None:
    benchmark = tmp_path / "benchmark.pubtator"
    benchmark.write_text("10021369|t|The title as it was then.\n10021369|a|\n", encoding="utf-8")
    documents = [
        {"id": "PMID:10021369", "title": "Another title"},
        {"id": "PMC77", "pmid": "10021369", "text": "Its full text."},
        {"id": "10021369", "text": "A document of a collection that numbers its documents."},
        {"id": "PMC10021369", "text": "Another article."},
    ]
    counts = build(tmp_path, documents, benchmark)
    assert (counts["documents"], counts["filtered"]) == (2, {"excluded": 2})


def test_equal_ids_that_name_no_article_keep_nothing_out(tmp_path: Path) -> None:
    # Sentences of benchmark files are numbered from 0, and so are documents of other collections.
    benchmark = jsonl(tmp_path / "benchmark.jsonl", [{"id": "0", "text": "One text."}])
    counts = build(tmp_path, [{"id": "0", "text": "Quite another text."}], benchmark)
    assert counts["documents"] == 1


def test_two_workers_keep_out_the_same_as_one(tmp_path: Path) -> None:
    benchmark = jsonl(tmp_path / "benchmark.jsonl", [{"id": "b", "text": " ".join(WORDS)}])
    documents = [{"id": str(i), "text": f"{i} " + " ".join(WORDS[i : i + 14])} for i in range(40)]
    digests = set()
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        folder.mkdir()
        digests.add(build(folder, documents, benchmark, workers=workers)["digest"])
    assert len(digests) == 1


def test_a_build_that_is_resumed_with_other_exclusions_is_refused(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "source.jsonl", [{"id": "a", "text": "Some text."}])
    one = jsonl(tmp_path / "one.jsonl", [{"id": "x", "text": " ".join(WORDS)}])
    build_corpus([source], tmp_path / "out", BuildOptions(exclude=(str(one),)))
    jsonl(one, [{"id": "x", "text": " ".join(reversed(WORDS))}])
    with pytest.raises(UsageError, match="other sources or options"):
        build_corpus([source], tmp_path / "out", BuildOptions(exclude=(str(one),)), resume=True)


def test_files_without_a_readable_document_are_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("", encoding="utf-8")
    with pytest.raises(BadInput, match=r"empty\.jsonl.*--exclude"):
        read_exclusion([empty])


def test_what_keeps_nothing_out_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jsonl(tmp_path / "good.jsonl", [{"id": "b", "text": " ".join(WORDS)}])
    (tmp_path / "broken.jsonl").write_text('{"id": "a", "text": "fine"}\n{"id": \n', encoding="utf-8")
    (tmp_path / "picture.xml").write_bytes(bytes(range(256)))
    read_exclusion([tmp_path])
    said = capsys.readouterr().err
    assert "2 files or records could not be read and keep nothing out" in said
    assert "first picture.xml, file" in said and "broken.jsonl, line 2" in said


def test_a_run_never_crosses_from_one_text_into_the_next() -> None:
    half = RUN_WORDS - 1
    hashes, owners = run_hashes([" ".join(WORDS[:half]), " ".join(WORDS[half : half + RUN_WORDS])], RUN_WORDS)
    assert len(hashes) == 1 and owners.tolist() == [1]
    assert np.array_equal(run_hashes([" ".join(WORDS[half : half + RUN_WORDS])], RUN_WORDS)[0], hashes)


def test_an_output_that_exists_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="corpus exists already"):  # not that the benchmark is missing
        build(tmp_path, [{"id": "a", "text": "a"}], tmp_path / "missing.jsonl")
