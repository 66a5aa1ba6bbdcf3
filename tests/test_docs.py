"""The documentation does what it says: the quickstart is run, and its commands, links and tables exist."""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

from biosmith.cli import COMMANDS, _describe, _function, _parse, main
from biosmith.errors import DONE, SET_ASIDE, UsageError

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
# What makes the quickstart's commands take seconds in a test; the commands themselves stay as they are printed.
QUICK = {
    "vocab train": ["--workers", "1"],
    "pretrain": ["--override", "steps=4"],
    "finetune": ["--override", "epochs=1"],
}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def commands(page: Path, language: str = "bash") -> list[list[str]]:
    """The words of each `biosmith` command of a page's shell blocks."""
    found = []
    for block in blocks(page, language):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["biosmith"] or words[:1] == [".venv/bin/biosmith"]:
                found.append(words[1:])
    return found


def command_name(words: list[str]) -> str:
    return " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]


def refused(words: list[str]) -> str:
    """Why the parser would not take a command; nothing is run."""
    name = command_name(words)
    try:
        _parse(name, [w for w in words[len(name.split()) :] if w != "--json"], as_json=True)
    except UsageError as error:
        return f"{' '.join(words)}: {error}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_in_the_documentation_is_one_that_the_parser_takes(page: Path) -> None:
    shown = commands(page, "bash") + commands(page, "sh")
    assert {command_name(words) for words in shown} <= set(COMMANDS)
    assert [reason for words in shown if (reason := refused(words))] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_a_commands_help_are_ones_that_the_parser_takes(name: str) -> None:
    text = _describe(_function(name)).replace("\\\n", " ")
    shown = [shlex.split(line)[1:] for line in re.findall(rf"(biosmith {name}(?: .*)?)$", text, re.MULTILINE)]
    assert shown
    assert [reason for words in shown if (reason := refused(words))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_to_files_of_the_repository_lead_somewhere(page: Path) -> None:
    generated = {"reference", "contributing.md", "changelog.md"}
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve()
        inside_docs = (
            path.is_relative_to(ROOT / "docs") and path.relative_to(ROOT / "docs").parts[0] in generated
        )
        assert path.exists() or inside_docs, target


def test_the_readme_and_the_quickstart_tell_the_same_commands() -> None:
    readme, quickstart = ROOT / "README.md", ROOT / "docs" / "quickstart.md"
    assert blocks(readme, "bash")[1] == blocks(quickstart, "bash")[0]
    assert blocks(readme, "python") == blocks(quickstart, "python")


def test_the_quickstart_runs_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples" / "data", tmp_path / "examples" / "data")
    monkeypatch.chdir(tmp_path)
    run = commands(ROOT / "README.md")
    assert [command_name(words) for words in run][:3] == ["corpus build", "vocab train", "tokenize"]
    for words in run:
        code = main([*words, *QUICK.get(command_name(words), [])])
        assert code in (DONE, SET_ASIDE), words
    (example,) = blocks(ROOT / "README.md", "python")
    exec(compile(example, "README.md", "exec"), {})
    assert (tmp_path / "work" / "page.html").stat().st_size > 10_000


def test_the_extras_of_the_install_page_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(project["optional-dependencies"])


def test_the_citation_names_the_version_of_the_package() -> None:
    from biosmith.version import __version__

    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_licence_is_the_one_that_the_package_declares() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
