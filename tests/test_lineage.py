"""Tracing: a chain of small artefacts on disk, then moved, changed and lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from biosmith.artefact import Manifest, describe_files, describe_input
from biosmith.errors import BadInput, UsageError
from biosmith.lineage import (
    CHANGED,
    MISSING,
    MOVED,
    RECORDED,
    SOUND,
    find_artefact,
    keep_lineage,
    trace_origin,
)


def make(folder: Path, kind: str, content: str, inputs: list[Path]) -> Path:
    folder.mkdir(parents=True)
    (folder / "data.txt").write_text(content, encoding="utf-8")
    described = [describe_input(path) for path in inputs]
    Manifest(kind, inputs=described, files=describe_files(folder), command=f"make {kind}").save(folder)
    return folder


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """raw file -> corpus -> vocabulary; corpus and vocabulary -> tokens -> run."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "raw.xml").write_text("<raw/>", encoding="utf-8")
    corpus = make(home / "corpus", "corpus", "shard", [home / "raw.xml"])
    vocabulary = make(home / "vocabulary", "vocabulary", "pieces", [corpus])
    tokens = make(home / "tokens", "tokens", "ids", [corpus, vocabulary])
    return make(home / "run", "run", "weights", [tokens])


def states(folder: Path) -> dict[str, str]:
    return {Path(origin.path).name: origin.state for origin in trace_origin(folder).walk()}


def test_an_untouched_chain_is_sound_down_to_the_raw_file(chain: Path) -> None:
    origin = trace_origin(chain)
    assert [o.kind for o in origin.walk()] == [
        "run",
        "tokens",
        "corpus",
        "file",
        "vocabulary",
        "corpus",
        "file",
    ]
    assert {o.state for o in origin.walk()} == {SOUND}
    assert origin.inputs[0].command == "make tokens"


def test_a_flipped_byte_is_found_by_digest_although_the_size_agrees(chain: Path) -> None:
    (chain.parent / "corpus" / "data.txt").write_text("shart", encoding="utf-8")  # 5 bytes, as "shard" has
    assert states(chain)["corpus"] == CHANGED
    # Sizes alone cannot tell, which is what --no-verify promises and no more.
    assert {o.state for o in trace_origin(chain, verify=False).walk()} == {SOUND}


def test_a_chain_moved_as_a_whole_is_still_found_and_sound(chain: Path) -> None:
    # Manifests hold absolute paths here, so every input has to be looked for beside the artefact.
    there = chain.parent.parent / "elsewhere"
    shutil.move(chain.parent, there)
    found = states(there / "run")
    assert found.pop("run") == SOUND
    assert set(found.values()) == {MOVED}


def test_a_lost_raw_file_is_missing_and_everything_above_stays_sound(chain: Path) -> None:
    (chain.parent / "raw.xml").unlink()
    found = states(chain)
    assert found["raw.xml"] == MISSING
    assert found["corpus"] == SOUND


def test_an_input_made_anew_is_not_taken_for_the_one_that_was_used(chain: Path) -> None:
    manifest = chain.parent / "corpus" / "manifest.json"
    data = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps(data | {"created": "2001-01-01"}), encoding="utf-8")
    corpus = next(o for o in trace_origin(chain).walk() if o.kind == "corpus")
    assert corpus.state == CHANGED
    assert "made anew" in corpus.problems[0]


def test_an_input_whose_manifest_is_broken_is_changed_and_does_not_stop_the_walk(chain: Path) -> None:
    (chain.parent / "vocabulary" / "manifest.json").write_text("{", encoding="utf-8")
    origins = list(trace_origin(chain).walk())
    broken = [o for o in origins if o.state == CHANGED]
    assert [Path(o.path).name for o in broken] == ["vocabulary"]
    assert any(o.kind == "corpus" for o in origins)


def test_each_file_is_read_once_however_often_it_is_an_input(chain: Path) -> None:
    read: list[int] = []
    trace_origin(chain, advance=read.append)
    # raw.xml 6 bytes, then shard, pieces, ids, weights; the corpus is an input twice but read once.
    assert sum(read) == sum(len(text) for text in ("<raw/>", "shard", "pieces", "ids", "weights"))


def test_a_folder_of_hugging_face_is_known_by_its_files(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    (plain / "pooling").mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "pooling/config.json", ".lock"):
        (plain / name).write_text(name, encoding="utf-8")
    run = make(tmp_path / "run", "run", "weights", [plain])
    (plain / ".lock").write_text(
        "changed", encoding="utf-8"
    )  # what a downloader leaves is no part of a model
    assert states(run)["plain"] == SOUND
    (plain / "model.safetensors").write_text("MODEL.safetensors", encoding="utf-8")
    assert states(run)["plain"] == CHANGED


def test_a_file_inside_an_artefact_means_the_artefact(chain: Path) -> None:
    assert find_artefact(chain / "data.txt") == chain


def test_a_file_with_a_manifest_beside_it_is_not_what_the_folder_around_it_is(chain: Path) -> None:
    made = chain / "annotated.jsonl"
    made.write_text("{}", encoding="utf-8")
    described = [describe_input(chain.parent / "raw.xml")]
    manifest = Manifest("annotations", inputs=described, files=describe_files(chain, [made.name]))
    manifest.save(chain, f"{made.name}.manifest.json")
    assert find_artefact(made) == made
    assert states(made) == {"annotated.jsonl": SOUND, "raw.xml": SOUND}


def test_what_is_no_artefact_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere does not exist"):
        find_artefact(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="not a biosmith artefact"):
        find_artefact(tmp_path)


def test_a_model_knows_its_origin_where_nothing_that_it_was_made_from_is_at_hand(
    chain: Path, tmp_path: Path
) -> None:
    model = tmp_path / "elsewhere" / "model"
    model.mkdir(parents=True)
    manifest = Manifest("model", inputs=[describe_input(chain)])
    keep_lineage(model, manifest)
    manifest.save(model)
    assert {o.state for o in trace_origin(model).walk()} == {SOUND}, "what is at hand is looked at"
    shutil.rmtree(chain.parent)
    top, *below = trace_origin(model).walk()
    assert top.state == SOUND and {o.state for o in below} == {RECORDED}
    assert [o.kind for o in below] == ["run", "tokens", "corpus", "file", "vocabulary", "corpus", "file"]
    assert str(tmp_path) not in (model / "lineage.json").read_text(encoding="utf-8")


def test_a_model_of_files_alone_gets_no_lineage(chain: Path, tmp_path: Path) -> None:
    keep_lineage(tmp_path, Manifest("model", inputs=[describe_input(chain.parent / "raw.xml")]))
    assert not (tmp_path / "lineage.json").exists()


WHOLE = {"path": "model", "kind": "model", "state": "sound", "digest": "ab", "inputs": []}


@pytest.mark.parametrize(
    ("lineage", "words"),
    [
        ([], "is not the lineage"),
        ({}, "it lacks 'state'"),
        ({key: value for key, value in WHOLE.items() if key != "inputs"}, "it lacks 'inputs'"),
        (WHOLE | {"inputs": 5}, "is not the lineage"),
        (WHOLE | {"inputs": [WHOLE, WHOLE | {"digest": ["ab"]}]}, "digest is no text"),
        (WHOLE | {"counts": "many"}, "counts are no object"),
    ],
)
def test_a_damaged_lineage_of_a_released_folder_is_named(tmp_path: Path, lineage: object, words: str) -> None:
    folder = make(tmp_path / "model", "model", "weights", [])
    (folder / "lineage.json").write_text(json.dumps(lineage), encoding="utf-8")
    with pytest.raises(BadInput, match=words) as raised:
        trace_origin(folder)
    assert "lineage.json" in str(raised.value)
