"""Rules of the house that hold for every file: floors, sizes, names, and no trace of one machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
LINES_AT_MOST = 600
UNWANTED_NAMES = {"utils", "util", "helpers", "helper", "misc", "common", "manager", "handler"}
# Home folders, scratch folders and mirrors of somebody's machine; examples in prose use relative paths.
MACHINE_PATHS = re.compile(r"(?<![\w.:/-])/(?:work|tmp|home|root|Users|opt|mnt|scratch)/[\w.-]+")


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout, so there is no list of tracked files")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_the_floors_hold() -> None:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Downstairs never imports upstairs KEPT" in done.stdout


def test_no_tracked_file_names_a_path_of_one_machine() -> None:
    found = []
    for path in tracked_files():
        if path.is_file() and path.suffix not in {".gz", ".xz", ".png", ".zip"}:
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # a binary or deliberately broken test file
            found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in MACHINE_PATHS.finditer(text)]
    assert found == []


def test_source_files_stay_short_enough_to_read() -> None:
    lengths = {p.name: len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCES}
    assert {name: n for name, n in lengths.items() if n > LINES_AT_MOST} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [p for p in SOURCES if p.stem in UNWANTED_NAMES] == []


def test_text_files_are_opened_with_an_encoding() -> None:
    # Without one, Windows reads and writes in its own code page and Greek letters are lost.
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                named = any(word.arg in ("encoding", None) for word in node.keywords)
                if node.func.attr in ("read_text", "write_text") and not named:
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []
