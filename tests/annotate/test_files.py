"""Files in, one annotated file out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import biosmith
from biosmith.annotate.files import Options, annotate_files
from biosmith.cli import main
from biosmith.errors import UsageError
from biosmith.lineage import CHANGED, SOUND, find_artefact, trace_origin
from biosmith.text.document import Document

TEXTS = ["Gout is rare.", "Patients with anemia were given heparin.", "No effect of aspirin was seen."]


def write_input(path: Path, count: int) -> Path:
    records = [{"id": str(i), "title": TEXTS[i % 3], "abstract": TEXTS[(i + 1) % 3]} for i in range(count)]
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


def spans(path: Path) -> list[tuple[str, list[tuple[int, int, str]]]]:
    return [(d.id, [(m.start, m.end, m.type) for m in d.mentions]) for d in biosmith.read(path)]


@pytest.mark.parametrize("suffix", ["jsonl", "bioc.json", "bioc.xml", "parquet"])
def test_the_output_holds_what_the_annotator_found_in_every_format(
    tagger_folder: Path, tmp_path: Path, suffix: str
) -> None:
    source = write_input(tmp_path / "in.jsonl", 6)
    out = tmp_path / f"out.{suffix}"
    report = annotate_files([source], [tagger_folder], out)
    expected = list(biosmith.load(tagger_folder).annotate(biosmith.read(source)))
    assert spans(out) == [(d.id, [(m.start, m.end, m.type) for m in d.mentions]) for d in expected]
    data = report.as_dict()
    assert (data["documents"], data["mentions"]) == (6, sum(len(d.mentions) for d in expected))
    assert (data["failed"], data["truncated"], data["set_aside"]) == (0, 0, 0)
    assert data["documents_per_second"] > 0 and data["tokens_per_second"] > 0
    manifest = json.loads((tmp_path / f"out.{suffix}.manifest.json").read_text(encoding="utf-8"))
    assert manifest["kind"] == "annotations"
    assert [i["kind"] for i in manifest["inputs"]] == ["tuned", "file"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.jsonl", out.name, f"{out.name}.manifest.json"]


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet", "brat"])
def test_annotations_are_traced_to_the_model_and_the_texts(
    tagger_folder: Path, tmp_path: Path, name: str
) -> None:
    # The output is one file (brat: a folder of the user's), so its manifest lies beside it and not in it.
    source = write_input(tmp_path / "in.jsonl", 3)
    out = tmp_path / name
    annotate_files([source], [tagger_folder], out, Options(format="brat" if name == "brat" else None))
    assert find_artefact(out) == out
    origin = trace_origin(out)
    assert (origin.kind, origin.state, origin.counts["documents"]) == ("annotations", SOUND, 3)
    assert [(i.kind, i.state) for i in origin.inputs] == [("tuned", SOUND), ("file", SOUND)]
    changed = next(out.glob("*.ann")) if out.is_dir() else out
    with changed.open("ab") as stream:
        stream.write(b"\n")
    (changed_origin,) = [o for o in trace_origin(out).walk() if o.kind == "annotations"]
    assert changed_origin.state == CHANGED and changed.name in changed_origin.problems[0]


@pytest.mark.slow
def test_two_processes_give_what_one_gives(tagger_folder: Path, tmp_path: Path) -> None:
    source = write_input(tmp_path / "in.jsonl", 40)
    annotate_files([source], [tagger_folder], tmp_path / "one.jsonl")
    report = annotate_files([source], [tagger_folder], tmp_path / "two.jsonl", Options(workers=2))
    assert report.counts.documents == 40
    assert spans(tmp_path / "one.jsonl") == spans(tmp_path / "two.jsonl")


def test_bad_records_and_bad_documents_are_listed_and_the_rest_is_done(
    tagger_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.jsonl"
    long = "in " * 100
    lines = ['{"id": "1", "text": "Gout is rare."}', "{broken", json.dumps({"id": "2", "text": long})]
    source.write_text("\n".join([*lines, '{"id": "3", "text": "Gout."}']), encoding="utf-8")
    out = tmp_path / "out.jsonl"
    arguments = ["annotate", str(source), "--model", str(tagger_folder), "--out", str(out), "--json"]
    assert main([*arguments, "--on-long", "error"]) == 3
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert (data["documents"], data["failed"], data["set_aside"]) == (2, 1, 2)
    assert "out.jsonl.rejects.jsonl" in captured.err
    listed = [json.loads(x) for x in (tmp_path / "out.jsonl.rejects.jsonl").read_text().splitlines()]
    assert {item["record"] for item in listed} == {"line 2", "2"}
    assert [d.id for d in biosmith.read(out)] == ["1", "3"]


def test_a_document_that_breaks_the_writer_is_listed_and_the_rest_is_written(
    tagger_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from biosmith.text.formats import bioc_json

    write = bioc_json.write

    def fragile(documents: object, path: Path) -> object:
        def checked() -> object:
            for d in documents:  # type: ignore[attr-defined]
                if isinstance(d, Document) and d.id == "4":
                    raise ValueError("poison")
                yield d

        return write(checked(), path)  # type: ignore[arg-type]

    monkeypatch.setattr(bioc_json, "write", fragile)
    source = write_input(tmp_path / "in.jsonl", 6)
    report = annotate_files([source], [tagger_folder], tmp_path / "out.bioc.json")
    assert [d.id for d in biosmith.read(tmp_path / "out.bioc.json")] == ["0", "1", "2", "3", "5"]
    assert (report.counts.documents, report.counts.failed, report.set_aside) == (5, 1, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"out": "in.jsonl"}, "exists already"),
        ({"out": "in.jsonl/out.jsonl"}, "cannot be written: .*in.jsonl is no folder"),
        ({"out": "out.xyz"}, "no format is written to this suffix"),
        ({"source": "absent.jsonl"}, "does not exist"),
        ({"model": "absent"}, "does not exist"),
    ],
)
def test_a_wrong_call_is_refused_before_work_begins(
    tagger_folder: Path, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    write_input(tmp_path / "in.jsonl", 1)
    source = tmp_path / change.get("source", "in.jsonl")
    model = tmp_path / change["model"] if "model" in change else tagger_folder
    with pytest.raises(UsageError, match=message):
        annotate_files([source], [model], tmp_path / change.get("out", "out.jsonl"))
    assert not list(tmp_path.glob(".*.partial"))


def test_input_without_a_document_is_one_clear_error(tagger_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(biosmith.BiosmithError, match=r"in\.jsonl.*empty file"):
        annotate_files([tmp_path / "in.jsonl"], [tagger_folder], tmp_path / "out.jsonl")
    assert not list(tmp_path.glob(".*.partial")) and not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("suffix", ["pubtator", "html", "ann", "conll"])
def test_every_other_format_is_written_too(tagger_folder: Path, tmp_path: Path, suffix: str) -> None:
    source = write_input(tmp_path / "in.jsonl", 4)
    out = tmp_path / f"out.{suffix}"
    names = {"ann": "brat"}
    report = annotate_files([source], [tagger_folder], out, Options(format=names.get(suffix, suffix)))
    assert out.exists() and report.counts.documents == 4 and report.counts.mentions > 0
    if suffix in ("pubtator", "conll"):
        found = [m.text.lower() for d in biosmith.read(out) for m in d.mentions]
        assert len(found) == report.counts.mentions and "gout" in found


def test_a_page_shows_what_was_found_beside_the_gold(
    tagger_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_input(tmp_path / "in.jsonl", 2)
    annotate_files([source], [tagger_folder], tmp_path / "out.jsonl")
    arguments = [
        "view",
        str(tmp_path / "out.jsonl"),
        "--gold",
        str(source),
        "--out",
        str(tmp_path / "page.html"),
    ]
    assert main([*arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["documents"] == 2 and data["mentions"] > 0
    assert (data["uncompared"], data["absent"]) == (0, 0)
    assert "Gout" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert main(arguments) == 2
    assert "exists already" in capsys.readouterr().err
