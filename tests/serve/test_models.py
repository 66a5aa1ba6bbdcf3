"""Which models are served: only those whose files cannot run code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from biosmith.cli import main
from biosmith.errors import BiosmithError, UsageError
from biosmith.serve.models import describe, require_safe
from biosmith.serve.server import open_service


@pytest.fixture
def copy(tagger_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tagger_folder, tmp_path / "copy"))


def test_a_tuned_model_is_safe(tagger_folder: Path) -> None:
    require_safe(tagger_folder)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.pt", "optimizer.pkl", "modeling.py", "sub/x.ckpt"]
)
def test_a_file_that_may_run_code_is_refused_by_name(copy: Path, name: str) -> None:
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_bytes(b"")
    with pytest.raises(UsageError, match=f"{Path(name).name} may run code"):
        require_safe(copy)


def test_weights_must_be_there_in_a_safe_form(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="no weights in safetensors"):
        require_safe(copy)


def test_a_model_that_brings_code_is_refused(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config["auto_map"] = {"AutoModel": "evil--Model"}
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UsageError, match="auto_map"):
        require_safe(copy)


def test_the_plain_numbers_of_openvino_are_safe(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    for name in ("openvino.xml", "openvino.bin", "careful.xml", "careful.bin"):
        (copy / name).write_bytes(b"")
    engine = {"engine": "openvino", "file": "openvino.xml", "careful": "careful.xml"}
    (copy / "manifest.json").write_text(json.dumps({"config": {"engine": engine}}), encoding="utf-8")
    require_safe(copy)
    del engine["careful"]
    (copy / "manifest.json").write_text(json.dumps({"config": {"engine": engine}}), encoding="utf-8")
    with pytest.raises(UsageError, match=r"careful.bin may run code"):
        require_safe(copy)


def test_a_file_that_may_run_code_is_refused_beside_an_xml_file_too(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    for name in ("pytorch_model.bin", "pytorch_model.xml"):
        (copy / name).write_bytes(b"")
    with pytest.raises(UsageError, match="no weights in safetensors"):
        require_safe(copy)
    (copy / "model.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match=r"pytorch_model.bin may run code"):
        require_safe(copy)


def test_a_damaged_config_is_named(copy: Path) -> None:
    (copy / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(BiosmithError, match=r"config\.json.*is not JSON"):
        require_safe(copy)


def test_a_model_of_which_little_is_known_is_described(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": null, "id2label": {"0": "O"}}', encoding="utf-8")
    (model,) = describe([tmp_path])
    assert (model.name, model.task, model.types, model.made) == (tmp_path.name, "unknown", [], {})


def test_wrong_calls_are_refused(
    tagger_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["serve", "--model", str(tagger_folder), "--port", "0"]
    assert main(["serve", "--model", str(tmp_path / "absent")]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert main([*call, "--token", "a", "--token-file", "b"]) == 2
    assert main([*call, "--token-file", str(tmp_path / "absent")]) == 2
    assert main([*call, "--results", str(tmp_path / "absent")]) == 2
    assert main([*call, "--token", "ünsafe"]) == 2
    (tmp_path / "empty").mkdir()
    assert main([*call, "--results", str(tmp_path / "empty")]) in (1, 2)


def test_a_port_in_use_is_an_error_that_says_so(tagger_folder: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BiosmithError, match=f"cannot listen on 127.0.0.1:{port}"):
            open_service([tagger_folder], port=port)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "99999"], "port 99999 is none"),  # the system would listen on 34463
        (["--port", "-1"], "port -1 is none"),
        (["--documents", "0"], "the limit documents is 0"),
        (["--seconds", "nan"], "the limit request_seconds is nan"),
        (["--requests", "-5"], "the limit requests is -5"),
        (["--body-mb", "nan"], "--body-mb is nan"),
        (["--body-mb", "0"], "--body-mb is 0"),
        (["--token-file", "TOKEN"], "printable ASCII"),
    ],
)
def test_settings_that_make_no_service_are_refused(
    tagger_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    given = [a if a != "TOKEN" else str(tmp_path / "token") for a in arguments]
    assert main(["serve", "--model", str(tagger_folder), *given]) == 2
    assert message in capsys.readouterr().err


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"")
    with pytest.raises(UsageError, match="is no folder"):
        require_safe(tmp_path / "model.zip")


@pytest.mark.parametrize(
    "file", ["/etc/passwd.xml", "../openvino.xml", "sub/openvino.xml", 7, ["openvino.xml"]]
)
@pytest.mark.parametrize("key", ["file", "careful"])
def test_a_network_outside_its_folder_is_refused(copy: Path, file: object, key: str) -> None:
    engine = {"engine": "openvino", "file": "openvino.xml", key: file}
    (copy / "manifest.json").write_text(json.dumps({"config": {"engine": engine}}), encoding="utf-8")
    with pytest.raises(UsageError, match="names no file of its folder"):
        require_safe(copy)


def test_a_model_is_listed_by_the_link_that_was_given(tagger_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(tagger_folder, target_is_directory=True)
    assert [model.name for model in describe([tmp_path / "mine"])] == ["mine"]
