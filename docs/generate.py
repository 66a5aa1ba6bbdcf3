"""Pages that are made from the program itself, so that they cannot disagree with it; mkdocs runs this at each build."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import pkgutil
from pathlib import Path

import mkdocs_gen_files

import biosmith
from biosmith.bench.dataset import SPLITS
from biosmith.bench.datasets import DATASETS, find_dataset
from biosmith.bench.suites import SUITES
from biosmith.cli import COMMANDS, main
from biosmith.recipes import RECIPES, find_recipe, parameters
from biosmith.recipes.biovae import VAE_RECIPES, find_vae_recipe, vae_parameters
from biosmith.recipes.table import rows
from biosmith.text.formats import FORMATS

ROOT = Path(__file__).resolve().parents[1]
ROOMS = (
    "text",
    "corpus",
    "tokens",
    "models",
    "pretraining",
    "recipes",
    "tasks",
    "bench",
    "annotate",
    "generate",
    "serve",
)
GROUND = ("errors", "rejects", "artefact", "lineage", "randomness", "progress", "processes", "machine")


def write(name: str, lines: list[str]) -> None:
    with mkdocs_gen_files.open(name, "w", encoding="utf-8") as page:
        page.write("\n".join(lines) + "\n")


def help_of(name: str) -> str:
    """What `biosmith NAME --help` prints."""
    printed = io.StringIO()
    os.environ["COLUMNS"] = "100"
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*name.split(), "--help"])
    return printed.getvalue().rstrip()


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write_commands() -> None:
    lines = [
        "# Commands",
        "",
        "Every command takes `--json`, which prints one JSON object on stdout and nothing else.",
    ]
    lines += [
        "Exit codes: 0 done, 1 the work failed, 2 the call was wrong, 3 done but some input was set aside.",
        "",
    ]
    for name, (_, summary) in COMMANDS.items():
        lines += [f"## {name}", "", f"{summary}.", "", "```text", help_of(name), "```", ""]
    write("reference/commands.md", lines)


def write_formats() -> None:
    lines = [
        "# File formats",
        "",
        "`biosmith.read` finds the format by name and content; every file may be plain,",
    ]
    lines += ["`.gz` or `.xz`, in a folder, a `.tar(.gz)` or a `.zip`.", ""]
    lines += ["| format | files | read | written |", "|---|---|---|---|"]
    modules = {name: importlib.import_module(target) for name, target in FORMATS.items()}
    for name, module in modules.items():
        suffixes = ", ".join(f"`{s}`" for s in module.SUFFIXES)
        marks = ["yes" if hasattr(module, verb) else "no" for verb in ("read", "write")]
        lines.append(f"| [{name}](#{name}) | {suffixes} | {marks[0]} | {marks[1]} |")
    for name, module in modules.items():
        lines += ["", f"## {name}", "", inspect.getdoc(module) or ""]
    write("reference/formats.md", lines)


def write_recipes() -> None:
    lines = ["# Recipes", "", "| recipe | paper | layers × width | parameters | steps | tokens a step |"]
    lines += ["|---|---|---|---:|---:|---:|"]
    recipes = [find_recipe(name) for name in RECIPES]
    for r in recipes:
        shape = f"{r.model.layers} × {r.model.width}"
        numbers = f"{parameters(r):,} | {r.steps:,} | {r.batch.tokens:,}"
        lines.append(f"| [{r.name}](#{r.name}) | {cell(r.paper)} | {shape} | {numbers} |")
    for r in recipes:
        lines += ["", f"## {r.name}", "", inspect.getdoc(RECIPES[r.name]) or "", ""]
        lines += ["| field | value | source |", "|---|---|---|"]
        lines += [f"| `{path}` | {cell(value)} | {cell(source)} |" for path, value, source in rows(r)]
    lines += [
        "",
        "# Latent-variable models",
        "",
        "| recipe | paper | latent size | beta | parameters | steps |",
    ]
    lines += ["|---|---|---:|---:|---:|---:|"]
    latent = [find_vae_recipe(name) for name in VAE_RECIPES]
    for v in latent:
        numbers = f"{v.model.latent_size} | {v.objective.beta} | {vae_parameters(v):,} | {v.steps:,}"
        lines.append(f"| [{v.name}](#{v.name}) | {cell(v.paper)} | {numbers} |")
    for v in latent:
        lines += ["", f"## {v.name}", "", inspect.getdoc(VAE_RECIPES[v.name]) or "", ""]
        lines += ["| field | value | source |", "|---|---|---|"]
        lines += [f"| `{path}` | {cell(value)} | {cell(source)} |" for path, value, source in rows(v)]
    write("reference/recipes.md", lines)


def write_datasets() -> None:
    lines = ["# Datasets", "", "Counts are those of the papers.", ""]
    for suite in SUITES.values():
        lines += [f"## {suite.name}", "", "| group | dataset | metric | counted | train | dev | test |"]
        lines.append("|---|---|---|---|---:|---:|---:|")
        for group, names in suite.groups.items():
            for name in names:
                about = find_dataset(name).about
                paper = [about.paper[s].count if s in about.paper else None for s in SPLITS]
                counts = " | ".join("–" if n is None else f"{n:,}" for n in paper)
                lines.append(
                    f"| {group} | [{name}](#of-{name.lower().replace('.', '-')}) | {about.metric} | {about.counted} | {counts} |"
                )
        lines.append("")
    lines += ["## Each", ""]
    for name in DATASETS:
        about = find_dataset(name).about
        module = importlib.import_module(f"biosmith.bench.datasets.{DATASETS[name]}")
        lines += [
            f"### {name} {{ #of-{name.lower().replace('.', '-')} }}",
            "",
            inspect.getdoc(module) or "",
            "",
        ]
        folders = ", ".join(f"`{folder}`" for folder in about.folders)
        lines += [f"- Folder: {folders}", f"- Cite: {about.citation}", f"- Licence: {about.licence}"]
        lines += [f"- {about.source}", f"- Runs: {about.seeds}; scored on the {about.evaluated} split", ""]
    write("reference/datasets.md", lines)


def modules_of(room: str) -> list[str]:
    """A room and its public modules, in order."""
    package = importlib.import_module(f"biosmith.{room}")
    found = [package.__name__]
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            found.append(module.name)
    return found


def write_python() -> None:
    lines = [
        "# The ground floor",
        "",
        "What every room stands on, and `biosmith` itself.",
        "",
        "::: biosmith",
        "",
    ]
    for name in GROUND:
        lines += [f"::: biosmith.{name}", ""]
    write("reference/python/ground.md", lines)
    for room in ROOMS:
        lines = [f"# biosmith.{room}", ""]
        for module in modules_of(room):
            lines += [f"::: {module}", ""]
        write(f"reference/python/{room}.md", lines)


def copy_from_root() -> None:
    """Pages that also stand at the root of the repository, where people look for them first."""
    for source, page in (("CONTRIBUTING.md", "contributing.md"), ("CHANGELOG.md", "changelog.md")):
        text = (ROOT / source).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changelog.md)")
        write(page, text.splitlines())


assert Path(biosmith.__file__).is_relative_to(ROOT), "the documentation must be built from this checkout"
write_commands()
write_formats()
write_recipes()
write_datasets()
write_python()
copy_from_root()
