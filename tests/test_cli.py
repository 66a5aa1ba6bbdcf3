"""The command line as a whole: every command is found, explains itself, and keeps to the rules for output and exit codes."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from biosmith.artefact import Manifest, describe_files, describe_input
from biosmith.cli import COMMANDS, Report, _join_lists, _list_flags, _show, main
from biosmith.errors import DONE, FAILED, WRONG_CALL

GROUPS = sorted({name.split()[0] for name in COMMANDS if " " in name})


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_its_help_has_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module, _, attribute = COMMANDS[name][0].partition(":")
    assert callable(getattr(importlib.import_module(module), attribute))
    with pytest.raises(SystemExit) as stop:
        main([*name.split(), "--help"])
    assert stop.value.code == DONE
    shown = capsys.readouterr().out
    assert "Example" in shown
    assert f"biosmith {name}" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_an_unknown_option_as_a_wrong_call(name: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*name.split(), "--no-such-option"])
    assert stop.value.code == WRONG_CALL


def test_an_unknown_command_is_a_wrong_call_that_lists_the_valid_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["korpus", "build"]) == WRONG_CALL
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "'korpus build' is not a command" in shown.err
    assert "corpus" in shown.err and "annotate" in shown.err


@pytest.mark.parametrize("group", GROUPS)
def test_an_unknown_command_of_a_group_lists_that_group(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([group, "nonsense"]) == WRONG_CALL
    known = {name.split()[1] for name in COMMANDS if name.split()[0] == group}
    shown = capsys.readouterr().err
    assert all(name in shown for name in known)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == DONE
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)


def test_help_needs_no_heavy_library_so_that_it_is_there_at_once() -> None:
    code = (
        "import sys; from biosmith.cli import main; main(['--help']);"
        "heavy = {'torch', 'transformers', 'tokenizers', 'pyarrow', 'lxml', 'numpy', 'tyro'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_importing_the_package_imports_no_heavy_library() -> None:
    code = "import sys, biosmith; assert not {'torch', 'transformers', 'lxml'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def make_artefact(folder: Path) -> Path:
    folder.mkdir()
    raw = folder.parent / "raw.xml"
    raw.write_text("<raw/>", encoding="utf-8")
    (folder / "part").write_text("text", encoding="utf-8")
    Manifest("corpus", inputs=[describe_input(raw)], files=describe_files(folder)).save(folder)
    return folder


def test_json_prints_exactly_one_object_on_stdout_and_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = make_artefact(tmp_path / "corpus")
    assert main(["trace", str(folder), "--json"]) == DONE
    out = capfd.readouterr().out
    assert out.count("\n") == 1
    report = json.loads(out)
    assert report["complete"] is True
    assert report["raw_files"] == [str(tmp_path / "raw.xml")]


def test_trace_exits_with_one_when_something_changed_and_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_artefact(tmp_path / "corpus")
    (folder / "part").write_text("texts", encoding="utf-8")
    assert main(["trace", str(folder)]) == FAILED
    assert "part: has 5 bytes, the manifest says 4" in capsys.readouterr().out


def test_an_error_with_json_is_an_object_too_and_one_line_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", str(tmp_path / "nowhere"), "--json"]) == WRONG_CALL
    shown = capsys.readouterr()
    assert "does not exist" in json.loads(shown.out)["error"]
    assert len(shown.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (["corpus", "build", "x", "--out", "y", "--minwords", "3"], "--min-words"),
        (["vocab", "train", "x", "--kind", "wp", "--size", "3", "--out", "y"], "'wordpiece'"),
        (["korpus"], "valid: corpus"),
        (["corpus"], "valid: build, fetch, stats"),
    ],
)
def test_a_wrong_call_with_json_is_an_object_too(
    call: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*call, "--json"]) == WRONG_CALL
    shown = capsys.readouterr()
    assert says in json.loads(shown.out)["error"]
    assert len(shown.err.splitlines()) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_values_of_a_list_given_twice_add_up(name: str) -> None:
    # Left to the parser the last one wins, and a benchmark given to the first --exclude would stay in the corpus.
    module, _, attribute = COMMANDS[name][0].partition(":")
    function = getattr(importlib.import_module(module), attribute)
    lists = {
        f"--{p.name}"
        for p in inspect.signature(function).parameters.values()
        if str(p.annotation).startswith("tuple[") and "..." in str(p.annotation)
    }
    assert lists <= _list_flags(function)
    for flag in lists:
        joined = _join_lists([flag, "a", "b", "--seed", "1", f"{flag}=c", "--resume"], _list_flags(function))
        assert joined == ["--seed", "1", "--resume", flag, "a", "b", "c"]


def test_two_folders_given_to_exclude_one_by_one_are_both_kept_out(tmp_path: Path) -> None:
    for name, text in (("one", "Aspirin inhibits cyclooxygenase."), ("two", "Insulin lowers glucose.")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": name, "text": text}), encoding="utf-8")
    (tmp_path / "three.jsonl").write_text('{"id": "three", "text": "Gout hurts."}', encoding="utf-8")
    sources = [str(tmp_path / f"{name}.jsonl") for name in ("one", "two", "three")]
    call = ["corpus", "build", *sources, "--out", str(tmp_path / "corpus"), "--exclude", sources[0]]
    assert main([*call, "--exclude", sources[1]]) == DONE
    manifest = json.loads((tmp_path / "corpus" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["config"]["exclude"] == sources[:2]


def test_a_command_that_is_interrupted_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("biosmith.corpus.build.build_corpus", interrupted)
    assert main(["corpus", "build", "x", "--out", "y"]) == FAILED
    assert capsys.readouterr().err == "biosmith: stopped; what was finished is kept, --resume goes on\n"
    monkeypatch.setattr("biosmith.tasks.ner.finetune", interrupted)
    assert main(["finetune", "ner", "--model", "x", "--data", "y", "--out", "z"]) == FAILED
    assert capsys.readouterr().err == "biosmith: stopped; what was finished is kept, the same call goes on\n"
    monkeypatch.setattr("biosmith.tokens.vocabulary.load_vocabulary", interrupted)
    assert main(["vocab", "report", "x"]) == FAILED  # keeps nothing
    assert capsys.readouterr().err == "biosmith: stopped\n"


def test_a_run_that_is_there_is_to_be_resumed_not_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert main(["pretrain", "demo", "--tokens", "x", "--out", str(tmp_path / "run")]) == WRONG_CALL
    assert "run holds a run; go on with --resume" in capsys.readouterr().err


def test_annotating_nothing_is_a_wrong_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["annotate", "--out", str(tmp_path / "out.jsonl")]) == WRONG_CALL
    assert "at least one input" in capsys.readouterr().err


@pytest.mark.parametrize("text", [None, "made work/[/run]"])
def test_square_brackets_in_paths_are_shown_as_they_are(
    text: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    _show(Report({"out": "work/[/run]"}, text), as_json=False)
    assert "work/[/run]" in capsys.readouterr().out


def test_a_value_that_is_wider_than_the_window_is_shown_to_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    digest = "".join(f"{n:04d}" for n in range(50))
    _show(Report({"digest": digest}), as_json=False)
    assert "".join(capsys.readouterr().out.split()) == f"digest{digest}"


def test_every_installed_engine_is_made_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from biosmith.annotate.engines import ENGINES, is_installed, measuring, thresholds

    monkeypatch.setattr(thresholds, "SECONDS", 0.01)
    monkeypatch.setattr(measuring, "MEASURED", 1)
    speeds = measuring.measure_engines()
    assert {name.removesuffix(" int8") for name in speeds} == {name for name in ENGINES if is_installed(name)}
    assert all(speed > 0 for speed in speeds.values())


def test_doctor_says_what_the_machine_has(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--no-measure", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == (FAILED if report["problems"] else DONE)
    assert report["libraries"]["torch"] and report["processor"]["cores"] >= 1
    assert report["extras"]["track"] == {
        "installed": True,
        "missing": [],
        "gives": "training curves in TensorBoard",
    }


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "biosmith", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("biosmith ")


def test_doctor_and_data_ls_show_paths_with_square_brackets_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a[red]b[" / "c]"  # as markup, a style and a closing tag of nothing
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert main(["doctor", "--no-measure"]) in (DONE, FAILED)
    assert "a[red]b[/c]" in "".join(capsys.readouterr().out.split())
    assert main(["data", "ls", "--suite", "BIOSSES", "--data", str(folder)]) == DONE
    assert "a[red]b[/c]" in "".join(capsys.readouterr().out.split())


def test_an_error_without_words_does_not_stop_the_doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("biosmith.annotate.engines.measuring.measure_engines", fails)
    monkeypatch.setattr("biosmith.cli.doctor._measure_encoder", fails)
    assert main(["doctor", "--json"]) == FAILED
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert "an encoder does not run on cpu: RuntimeError" in problems
    assert "the engines of annotate do not run: RuntimeError" in problems


@pytest.mark.parametrize("encoding", ["ascii", "utf-8:strict", "cp1252"])
@pytest.mark.parametrize("as_json", [True, False])
def test_what_the_terminal_cannot_write_is_written_in_another_way(encoding: str, as_json: bool) -> None:
    # "β" and an emoji are in no code page of Windows, and a half of a surrogate pair is in no encoding.
    shown = {"out": "β \U0001f600 \udcff"}
    code = f"from biosmith.cli import main; import biosmith.cli.recipes as r, biosmith.cli as c\nr.recipes = lambda: c.Report({shown!r})\nraise SystemExit(main({['recipes', *(['--json'] if as_json else [])]!r}))"
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (DONE, b"")
    written = done.stdout.decode(encoding.partition(":")[0])
    if as_json:
        assert json.loads(written) == shown
    else:
        assert "\\udcff" in written and ("β" if encoding == "utf-8:strict" else "\\u03b2") in written


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (["corpus", "build", "", "--out", "x"], "an empty path"),
        (["corpus", "build", "text", "--out", ""], "an empty path (--out)"),
        (["corpus", "build", "text", "--out="], "an empty path (--out)"),
        (["corpus", "build", "text", "--out", "x", "--exclude"], "--exclude names no file or folder"),
        (["corpus", "build", "text", "--exclude", "--out", "x"], "--exclude names no file or folder"),
        (["pretrain", "demo", "--tokens", "--out", "x"], "--tokens names no file or folder"),
        (["pretrain", "demo", "--tokens", "", "--out", "x"], "an empty path (--tokens)"),
        (["vocab", "report", "text", "--data", "--limit", "3"], "--data names no file or folder"),
    ],
)
def test_a_path_from_a_variable_that_is_not_set_is_a_wrong_call(
    call: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # An empty path would be the working directory, and a corpus that --exclude of nothing keeps clean of nothing is not.
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("Aspirin helps.", encoding="utf-8")
    assert main(call) == WRONG_CALL
    assert says in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_texts_may_be_empty_and_so_may_be_lists_of_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "demo", "--override"]) == DONE
    assert main(["generate", "reconstruct", "--model", "nowhere", "--text", ""]) == WRONG_CALL
    assert "empty path" not in capsys.readouterr().err


def test_a_corpus_may_be_named_twice_so_that_a_tagger_weighs_it_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "devel", "test"):
        (tmp_path / f"{split}.tsv").write_text("Aspirin\tB-Chemical\n\n", encoding="utf-8")
    data = [str(tmp_path)] * 2
    call = ["finetune", "ner", "--model", "nowhere", "--data", *data, "--out", str(tmp_path / "tuned")]
    assert main(call) == WRONG_CALL
    assert "nowhere does not exist" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("kind", ["run", "corpus", "tokens"])
def test_what_is_no_model_is_not_released(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Of a run its weights would be left out, which lie in its checkpoints: a folder for nothing.
    config = {"vocabulary": {"size": 5, "digest": "0" * 64}} if kind == "tokens" else {}
    (tmp_path / "made").mkdir()
    Manifest(kind, config=config, counts={"documents": 1, "tokens": 1}).save(tmp_path / "made")
    assert main(["release", str(tmp_path / "made"), "--out", str(tmp_path / "out")]) == WRONG_CALL
    shown = capsys.readouterr().err
    assert f"made is a {kind} artefact, not a model" in shown and ("biosmith export" in shown) is (
        kind == "run"
    )
    assert not (tmp_path / "out").exists()
