"""Building a corpus: what stays and what is counted, bad input, any number of workers, stopping and resuming."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from biosmith import cli
from biosmith.artefact import digest_file
from biosmith.corpus import build, units
from biosmith.corpus.build import BUILDING, build_corpus, load_counts
from biosmith.corpus.intake import identity
from biosmith.corpus.options import BuildOptions
from biosmith.corpus.units import in_nlm_order
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.lineage import trace_origin
from biosmith.processes import hold_output
from biosmith.text.document import Document, Passage
from biosmith.text.formats import read


def prose(count: int, seed: int) -> str:
    draw = random.Random(seed)
    return " ".join("".join(draw.choices("abcdefghij", k=draw.randint(2, 9))) for _ in range(count))


def write_jsonl(path: Path, documents: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(d, ensure_ascii=False) + "\n" for d in documents), encoding="utf-8")
    return path


def citation(
    pmid: int, abstract: str, version: int = 1, revised: str = "2020 01 02", language: str = "eng"
) -> str:
    year, month, day = revised.split()
    return f"""<PubmedArticle><MedlineCitation><PMID Version="{version}">{pmid}</PMID>
    <DateRevised><Year>{year}</Year><Month>{month}</Month><Day>{day}</Day></DateRevised>
    <Article><ArticleTitle>Title of {pmid}.</ArticleTitle><Abstract><AbstractText>{abstract}</AbstractText></Abstract>
    <Language>{language}</Language></Article></MedlineCitation></PubmedArticle>"""


def write_medline(path: Path, *records: str, deleted: tuple[int, ...] = ()) -> Path:
    gone = "".join(f'<PMID Version="1">{pmid}</PMID>' for pmid in deleted)
    xml = f"<PubmedArticleSet>{''.join(records)}<DeleteCitation>{gone}</DeleteCitation></PubmedArticleSet>"
    path.write_bytes(gzip.compress(xml.encode()) if path.suffix == ".gz" else xml.encode())
    return path


def documents(out: Path) -> list[Document]:
    return [document for part in sorted(out.glob("part-*.parquet")) for document in read(part)]


def ids(out: Path) -> list[str]:
    return [document.id for document in documents(out)]


def shard_digests(out: Path) -> dict[str, str]:
    return {
        path.name: digest_file(path)
        for path in sorted(out.iterdir())
        if path.suffix in (".parquet", ".jsonl")
    }


def run(*arguments: object) -> int:
    return cli.main([str(a) for a in arguments])


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = run(*arguments, "--json")
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, data


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of 6 files of 8 documents, each file a unit of work; one broken line, some duplicates across files."""
    monkeypatch.setattr(units, "UNIT_FILES", 1)
    return fill(tmp_path / "many")


def fill(folder: Path) -> Path:
    folder.mkdir()
    for i in range(6):
        rows = [{"id": f"d{i}-{j}", "text": prose(60, seed=i * 8 + j)} for j in range(8)]
        if i > 2:
            rows[3]["text"] = prose(60, seed=3)  # of file 0
            rows[4]["text"] = prose(60, seed=4) + f" and {i}"
        write_jsonl(folder / f"{i}.jsonl", rows)
    with (folder / "2.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"id": "broken\n')
    return folder


SMALL_SHARDS = BuildOptions(shard_characters=4000)


def test_any_mix_of_formats_becomes_one_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in"
    source.mkdir()
    write_medline(source / "a.xml.gz", citation(1, prose(40, 1)), citation(2, prose(40, 2)))
    write_jsonl(
        source / "b.jsonl", [{"id": "j", "title": "T", "abstract": prose(30, 3), "body": [prose(20, 4)]}]
    )
    (source / "c.pubtator").write_text(
        f"77|t|A title here.\n77|a|{prose(25, 5)}\n77\t2\t7\ttitle\tDisease\tD1\n\n"
    )
    code, data = report(capsys, "corpus", "build", source, "--out", tmp_path / "out")
    assert code == 0
    assert ids(tmp_path / "out") == ["1", "2", "j", "77"]
    # titles of 3, 3, 1 and 3 words
    assert data["words"] == 40 + 40 + 30 + 20 + 25 + 3 + 3 + 1 + 3
    assert (data["documents"], data["passages"]) == (4, 2 + 2 + 3 + 2)
    assert (data["duplicates"], data["set_aside"], data["filtered"]) == (0, 0, {})
    assert not documents(tmp_path / "out")[3].mentions  # a corpus is text
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"manifest.json", "part-00000.parquet"}
    assert report(capsys, "corpus", "stats", tmp_path / "out")[1] == data


def test_every_document_read_is_counted_once(tmp_path: Path) -> None:
    same = prose(50, 1)
    rows = [
        {"id": "1", "text": same},
        {"id": "2", "text": same.upper()},
        {"id": "3", "text": same + " end"},
        {"id": "4", "text": "too short"},
        {
            "id": "5",
            "text": "Die Zellen wurden im Labor gezüchtet und dann untersucht, weil sie krank waren " * 3,
        },
        {"id": "6", "passages": [{"kind": "table", "text": "1 2 3"}]},
        {
            "id": "PMID7",
            "text": "The cells were grown in the lab and then looked at because they were ill " * 3,
        },
        {
            "id": "PMID7",
            "text": "The mice were kept in the house and then looked at because they were well " * 3,
        },
    ]
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    counts = build_corpus(source, tmp_path / "out", BuildOptions(min_words=5, language="eng")).counts
    # by pseudo-words the language of documents 1 to 3 is not English; see the next line
    assert (
        counts["read"] == 8 == counts["documents"] + counts["duplicates"] + sum(counts["filtered"].values())
    )
    counts = build_corpus(source, tmp_path / "out2", BuildOptions(min_words=5)).counts
    assert counts["filtered"] == {"empty": 1, "older version": 1, "short": 1}
    assert (counts["exact_duplicates"], counts["near_duplicates"], counts["duplicates"]) == (1, 1, 2)
    assert ids(tmp_path / "out2") == ["3", "5", "PMID7"]
    assert "mice" in documents(tmp_path / "out2")[2].text


def test_length_is_counted_outside_the_title(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "title": prose(9, 1), "abstract": prose(10, 2)},
        {"id": "2", "title": prose(9, 3), "abstract": prose(9, 4)},
    ]
    counts = build_corpus(
        write_jsonl(tmp_path / "in.jsonl", rows), tmp_path / "out", BuildOptions(min_words=10)
    ).counts
    assert ids(tmp_path / "out") == ["1"] and counts["filtered"] == {"short": 1}


def test_updates_replace_and_delete_whatever_the_order_on_the_command_line(tmp_path: Path) -> None:
    base = write_medline(tmp_path / "pubmed26n0001.xml", *(citation(i, prose(50, i)) for i in (1, 2, 3)))
    update = write_medline(
        tmp_path / "pubmed26n0002.xml", citation(2, prose(50, 22), revised="2021 01 01"), deleted=(3,)
    )
    for name, order in (("a", [base, update]), ("b", [update, base])):
        counts = build_corpus(order, tmp_path / name).counts
        assert counts["filtered"] == {"deleted": 1, "older version": 1}
        assert [d.passages[1].text for d in documents(tmp_path / name)] == [prose(50, 1), prose(50, 22)]


def test_nlm_files_are_ordered_by_number_in_the_places_they_take() -> None:
    names = ["pubmed26n0010.xml.gz", "x.jsonl", "pubmed26n0002.xml.gz", "pubmed25n1300.xml"]
    ordered = [path.name for path in in_nlm_order([Path("b") / name for name in names])]
    assert ordered == ["pubmed25n1300.xml", "x.jsonl", "pubmed26n0002.xml.gz", "pubmed26n0010.xml.gz"]


def test_full_texts_and_abstracts_of_one_article_do_not_replace_each_other() -> None:
    abstract = Document.build("5", [Passage("abstract", "a")], infons={"pmid": "5", "version": "1"})
    article = Document.build("PMC5", [Passage("paragraph", "a")], infons={"pmid": "5", "pmcid": "PMC5"})
    part = Document.build("PMC5.S2", [Passage("paragraph", "a")], infons={"pmcid": "PMC5", "parent": "PMC5"})
    names = [identity(document)[0] for document in (abstract, article, part)]
    assert len(set(names)) == 3 and None not in names
    assert identity(Document.build("5", [Passage("abstract", "a")]))[0] is None  # an id of a file of any kind


def test_duplicates_stay_with_no_dedup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", [{"id": str(i), "text": prose(50, 1)} for i in range(3)])
    code, data = report(capsys, "corpus", "build", source, "--out", tmp_path / "out", "--no-dedup")
    assert (code, data["documents"], data["duplicates"]) == (0, 3, 0)


def test_shards_keep_the_order_and_their_size(many: Path, tmp_path: Path) -> None:
    manifest = build_corpus(many, tmp_path / "out", SMALL_SHARDS)
    found = documents(tmp_path / "out")
    assert [d.id for d in found] == sorted(d.id for d in found)
    assert len(found) == manifest.counts["documents"] == 48 - 6
    sizes = [sum(len(d.text) for d in read(p)) for p in sorted((tmp_path / "out").glob("*.parquet"))]
    assert len(sizes) > 3 and max(sizes) < 4000 + 600  # one document of 60 words at most too many


def test_a_second_process_is_kept_off_a_corpus_in_the_making(many: Path, tmp_path: Path) -> None:
    # `--resume` in a second process would take the half-written files of the first for those of a killed run.
    out = tmp_path / "corpus"
    with hold_output(out), pytest.raises(UsageError, match="another process is making"):
        build_corpus(many, out, resume=True)
    build_corpus(many, out)
    assert [path for path in tmp_path.iterdir() if path.suffix == ".lock"] == []


def test_the_number_of_workers_changes_nothing(many: Path, tmp_path: Path) -> None:
    one = build_corpus(many, tmp_path / "one", SMALL_SHARDS, workers=1)
    two = build_corpus(many, tmp_path / "two", SMALL_SHARDS, workers=2)
    assert shard_digests(tmp_path / "one") == shard_digests(tmp_path / "two")
    assert one.counts == two.counts
    assert one.counts["set_aside"] == 1


def test_units_of_other_sizes_change_nothing(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_corpus(many, tmp_path / "one", SMALL_SHARDS)
    monkeypatch.setattr(units, "UNIT_FILES", 4)
    build_corpus(many, tmp_path / "two", SMALL_SHARDS)
    read_back = [documents(tmp_path / name) for name in ("one", "two")]
    assert read_back[0] == read_back[1]


# Kills itself at its k-th rename, resumes and kills itself at the k+1-th, and so on, until a build comes to its end.
KILLED_AT_LATER_AND_LATER_RENAMES = """
import os, signal, sys
from pathlib import Path
from biosmith.corpus import units
from biosmith.corpus.build import build_corpus
from biosmith.corpus.options import BuildOptions
units.UNIT_FILES = 1
rename = Path.replace
kills = 0
while True:
    child = os.fork()
    if child == 0:
        left = kills + 1
        def replace(self, target):
            global left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(self, target)
        Path.replace = replace
        build_corpus(sys.argv[1], sys.argv[2], BuildOptions(shard_characters=4000), resume=True)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status):
        sys.exit(os.waitstatus_to_exitcode(status) or (0 if kills > 8 else 9))
    kills += 1
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_many_times_and_resumed_it_ends_with_the_same_bytes(many: Path, tmp_path: Path) -> None:
    # More than eight kills in a row: before the plan is written, between the files of a unit, among the shards.
    build_corpus(many, tmp_path / "whole", SMALL_SHARDS)
    command = [sys.executable, "-c", KILLED_AT_LATER_AND_LATER_RENAMES, str(many), str(tmp_path / "killed")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert shard_digests(tmp_path / "killed") == shard_digests(tmp_path / "whole")
    assert load_counts(tmp_path / "killed") == load_counts(tmp_path / "whole")
    assert not list((tmp_path / "killed").glob(".*"))


KILLED_WITH_WORKERS = """
import sys
from biosmith.corpus import units
from biosmith.corpus.build import build_corpus
units.UNIT_FILES = 1
build_corpus(sys.argv[1], sys.argv[2], workers=2)
"""


def workers_of(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_a_killed_build_leaves_no_workers_behind_and_goes_on_without_them(many: Path, tmp_path: Path) -> None:
    whole = build_corpus(many, tmp_path / "whole")
    out = tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-c", KILLED_WITH_WORKERS, str(many), str(out)])
    deadline = time.monotonic() + 60
    while len(list((out / BUILDING).glob("unit-*.json"))) < 1 and time.monotonic() < deadline:
        time.sleep(0.002)
    workers = workers_of(process.pid)
    process.kill()  # SIGKILL, which it cannot pass on
    process.wait()
    assert not (out / "manifest.json").exists() and len(workers) >= 2
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_running, workers))
    assert build_corpus(many, out, workers=1, resume=True).counts == whole.counts
    assert shard_digests(out) == shard_digests(tmp_path / "whole")


def stop_in_the_middle(many: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = build.write_shard, []

    def stop(*arguments: Any) -> None:
        seen.append(arguments)
        if len(seen) > 1:
            raise KeyboardInterrupt
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(build, "write_shard", stop)
        with pytest.raises(KeyboardInterrupt):
            build_corpus(many, out, SMALL_SHARDS)


def test_an_unfinished_corpus_is_said_to_be_one(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    stop_in_the_middle(many, out, monkeypatch)
    assert len(ids(out)) > 0  # the finished shard can be read
    for arguments in (["build", many, "--out", out], ["stats", out]):
        assert run("corpus", *arguments) == 2
        assert "--resume" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"begun with min_words = 0, not 5"):
        build_corpus(many, out, BuildOptions(shard_characters=4000, min_words=5), resume=True)
    write_jsonl(many / "9.jsonl", [{"id": "new", "text": "new"}])
    with pytest.raises(UsageError, match=r"did not hold .*9.jsonl"):
        build_corpus(many, out, SMALL_SHARDS, resume=True)
    (many / "9.jsonl").unlink()
    os.utime(many / "3.jsonl")
    with pytest.raises(UsageError, match=r"another version of .*3.jsonl"):
        build_corpus(many, out, SMALL_SHARDS, resume=True)


def test_resuming_does_not_do_finished_work_again(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    stop_in_the_middle(many, out, monkeypatch)
    written = (out / "part-00000.parquet").stat().st_mtime_ns
    monkeypatch.setattr(build, "read_unit", lambda *arguments: pytest.fail("a unit was read again"))
    build_corpus(many, out, SMALL_SHARDS, resume=True)
    assert (out / "part-00000.parquet").stat().st_mtime_ns == written
    monkeypatch.setattr(build, "write_shard", lambda *arguments: pytest.fail("a shard was written again"))
    first = (out / "manifest.json").read_bytes()
    build_corpus(many, out, SMALL_SHARDS, resume=True)  # a finished corpus is left as it is
    assert (out / "manifest.json").read_bytes() == first
    with pytest.raises(UsageError, match="finished corpus of other sources or options"):
        build_corpus(many, out, BuildOptions(), resume=True)


def test_resume_of_a_build_that_never_began_just_builds(many: Path, tmp_path: Path) -> None:
    assert build_corpus(many, tmp_path / "out", resume=True).counts["documents"] == 42


def test_an_output_folder_that_exists_is_a_wrong_call(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    for more in ([], ["--resume"]):
        assert run("corpus", "build", many, "--out", tmp_path / "out", *more) == 2
        assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


def broken_files(folder: Path) -> Iterator[tuple[str, Path, int]]:
    """Name, file, and the number of documents that can still be read."""
    xml = write_medline(folder / "whole.xml", *(citation(i, prose(80, i)) for i in range(1, 6))).read_bytes()
    cut = xml.index(b'<PMID Version="1">4<')
    compressed = gzip.compress(xml)
    for name, data, readable in (
        ("truncated.xml.gz", compressed[: len(compressed) * 2 // 3], 1),
        ("cut.xml", xml[:cut], 3),
        ("empty.xml", b"", 0),
        ("empty.jsonl", b"", 0),
        ("binary.xml", bytes(range(256)) * 40, 0),
    ):
        (folder / name).write_bytes(data)
        yield name, folder / name, readable
    (folder / "whole.xml").unlink()


def test_broken_files_are_set_aside_and_what_can_be_read_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    expected = {name: readable for name, _, readable in broken_files(source)}
    write_medline(source / "z.xml", citation(9, prose(80, 9)))
    code, data = report(capsys, "corpus", "build", source, "--out", tmp_path / "out")
    assert code == 3
    assert data["set_aside"] == len(expected)
    assert set(ids(tmp_path / "out")) == {"1", "2", "3", "9"}  # of the cut file and the whole one
    lines = (tmp_path / "out" / "rejects.jsonl").read_text(encoding="utf-8").splitlines()
    listed = [json.loads(line) for line in lines]
    assert {Path(item["file"]).name for item in listed} == set(expected)
    assert all(item["record"] and item["reason"] for item in listed)


@pytest.mark.parametrize("name", ["empty.xml", "empty.jsonl", "binary.xml"])
def test_a_single_unreadable_file_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = {n: p for n, p, _ in broken_files(tmp_path)}[name]
    assert run("corpus", "build", path, "--out", tmp_path / "out") == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line]
    assert len(lines) == 1 and name in lines[0]
    assert not (tmp_path / "out").exists()


def test_strict_stops_at_the_first_bad_record(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("corpus", "build", many, "--out", tmp_path / "out", "--strict", "--workers", "1") == 1
    assert "2.jsonl, line 9" in capsys.readouterr().err


def test_strict_stops_in_a_worker_too(many: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"2.jsonl, line 9"):
        build_corpus(many, tmp_path / "out", BuildOptions(strict=True), workers=2)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere"], 2, "nowhere does not exist"),
        (["empty"], 1, "empty: holds no file"),
        ([], 2, "at least one source"),
        (["in.jsonl", "--workers", "-1"], 2, "workers is -1"),
        (["in.jsonl", "--min-words", "-1"], 2, "min_words is -1"),
        (["in.jsonl", "--language", "english"], 2, "valid: "),
        (["in.jsonl", "--similarity", "2"], 2, "between 0.5 and 1"),
        (["in.jsonl", "--min-words", "500"], 1, "no document is left of 1 that were read (short: 1)"),
    ],
)
def test_wrong_calls_are_one_clear_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    write_jsonl(Path("in.jsonl"), [{"id": "1", "text": "some text"}])
    assert run("corpus", "build", *arguments, "--out", "out") == code
    lines = [line for line in capsys.readouterr().err.splitlines() if line]
    assert len(lines) == 1 and words in lines[0]
    assert not Path("out").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=500k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here (needs root)")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_is_one_clear_line_and_the_build_goes_on_when_there_is_room(
    many: Path, tmp_path: Path, small_disk: Path, workers: int
) -> None:
    for i in range(6):  # text that does not compress: about 130 kB a file
        rows = [
            {"id": f"x{i}-{j}", "text": random.Random(i * 99 + j).randbytes(1400).hex()} for j in range(60)
        ]
        write_jsonl(many / f"x{i}.jsonl", rows)
    options = BuildOptions(shard_characters=300_000)
    whole = build_corpus(many, tmp_path / "whole", options)
    out = small_disk / "out"
    with pytest.raises(BiosmithError, match=r"no space left on the disk; what is finished is kept") as error:
        build_corpus(many, out, options, workers=workers)
    assert "\n" not in str(error.value)
    assert list((out / BUILDING).glob("unit-*.json"))  # some of the work is done
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    assert build_corpus(many, out, options, workers=workers, resume=True).counts == whole.counts
    assert shard_digests(out) == shard_digests(tmp_path / "whole")


def test_the_manifest_leads_back_to_the_files(many: Path, tmp_path: Path) -> None:
    manifest = build_corpus(many, tmp_path / "out", SMALL_SHARDS)
    assert [Path(entry["path"]).name for entry in manifest.inputs] == [f"{i}.jsonl" for i in range(6)]
    assert manifest.inputs[0]["digest"] == digest_file(many / "0.jsonl")
    for name, about in manifest.files.items():
        assert about["digest"] == digest_file(tmp_path / "out" / name)
    assert manifest.config["shard_characters"] == 4000


def test_very_many_inputs_are_listed_by_folder(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "LISTED_INPUTS", 3)
    manifest = build_corpus(many, tmp_path / "out")
    assert [(entry["path"], entry["files"]) for entry in manifest.inputs] == [(str(many), 6)]


def test_a_corpus_can_be_built_from_a_corpus_and_traced_through_it(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (many / "broken.jsonl").write_text("{\n", encoding="utf-8")
    build_corpus(many, tmp_path / "one", SMALL_SHARDS)
    assert (tmp_path / "one" / "rejects.jsonl").is_file()
    # Neither its manifest nor its list of rejects is text: nothing is set aside, so that the call is done (0).
    code, counts = report(capsys, "corpus", "build", tmp_path / "one", "--out", tmp_path / "two")
    assert (code, counts["set_aside"]) == (0, 0)
    assert documents(tmp_path / "one") == documents(tmp_path / "two")
    raw = {origin.path for origin in trace_origin(tmp_path / "two").walk() if origin.kind == "file"}
    assert raw == {str(path) for path in many.iterdir()}


def test_an_output_inside_its_source_is_no_source_when_the_build_is_resumed(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_corpus(many, tmp_path / "whole", SMALL_SHARDS)
    stop_in_the_middle(many, many / "out", monkeypatch)
    build_corpus(many, many / "out", SMALL_SHARDS, resume=True)
    assert shard_digests(many / "out") == shard_digests(tmp_path / "whole")
    manifest = build_corpus(many, many / "out", SMALL_SHARDS, resume=True)  # finished: left as it is
    assert len(manifest.inputs) == 6


def test_real_fixtures_are_built_and_counted(shared_data: Path, tmp_path: Path) -> None:
    # A baseline file and an update file of NLM: DeleteCitation, versions, OtherAbstract.
    files = [
        shared_data / "fixtures" / "pubmed" / name
        for name in ("pubmed26n1334.xml.gz", "pubmed26n1335.xml.gz")
    ]
    counts = build_corpus(files, tmp_path / "out").counts
    assert counts["documents"] > 10
    assert counts["read"] == counts["documents"] + counts["duplicates"] + sum(counts["filtered"].values())
    found = documents(tmp_path / "out")
    assert sum(len(d.text.split()) for d in found) == counts["words"]
    assert sum(len(d.passages) for d in found) == counts["passages"]
    assert len({d.id for d in found}) == len(found)


def test_a_text_that_says_that_it_is_deleted_is_a_text(tmp_path: Path) -> None:
    # Only "medline" gives deletions, which have no text; any JSON line may have a key of that name.
    write_jsonl(tmp_path / "a.jsonl", [{"id": "1", "text": "Some text that stays.", "deleted": True}])
    assert build_corpus(tmp_path / "a.jsonl", tmp_path / "out").counts["documents"] == 1


def test_a_source_whose_name_is_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    try:
        Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_text("Some text.", encoding="utf-8")
    except (OSError, UnicodeError):
        pytest.skip("this file system has no such names")
    with pytest.raises(UsageError, match=r"caf\\udce9.txt.* is not UTF-8"):
        build_corpus(folder, tmp_path / "out")


def test_a_file_that_cannot_be_opened_is_set_aside_and_does_not_stop_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "locked"):
        write_jsonl(tmp_path / "in" / f"{name}.jsonl", [{"id": name, "text": f"Some text of {name}."}])
    whole = Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "locked.jsonl":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return whole(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    manifest = build_corpus(tmp_path / "in", tmp_path / "out")
    assert (manifest.counts["documents"], manifest.counts["set_aside_reasons"]) == (
        1,
        {"cannot be read: Permission denied": 1},
    )
    assert ["digest" in source for source in manifest.inputs] == [True, False]


def test_a_corpus_of_nothing_leaves_the_working_directory_as_it_was(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It cannot be removed; the reason would be lost in an error of the system about that.
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(BiosmithError, match="no document is left"):
        build_corpus(many, ".", BuildOptions(min_words=10_000))
    assert list(Path().iterdir()) == []
    assert build_corpus(many, ".").counts["documents"]
