"""`biosmith trace`: from a result back to the raw files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from biosmith.cli import Report
from biosmith.errors import DONE, FAILED
from biosmith.lineage import BROKEN, MISSING, MOVED, NAMED, SOUND, Origin, find_artefact, trace_origin
from biosmith.progress import progress

if TYPE_CHECKING:
    from rich.tree import Tree

STYLES = {SOUND: "green", MOVED: "yellow"}
RAW_FILES_SHOWN = 5


def trace(artefact: Path, /, *, verify: bool = True) -> Report:
    """Walk an artefact back to the raw files it came from, and check that nothing changed on the way.

    Every biosmith folder has a manifest.json that names its inputs by digest. The tree shows what made each one, and
    whether it is sound, moved, changed or missing; the exit code is 1 if anything is changed or missing. What a released
    folder only describes is "recorded", and "named" where it knows the digest alone.

    Example: biosmith trace runs/ner-disease

    Args:
        artefact: a folder with a manifest.json, a file inside one, or what `annotate` made.
        verify: compare the digest of every file; with --no-verify only sizes, which is fast on large corpora.
    """
    folder = find_artefact(artefact)
    with progress("Verifying", unit="bytes") as advance:
        origin = trace_origin(folder, verify=verify, advance=advance)
    everything = list(origin.walk())
    broken = [o for o in everything if o.state in BROKEN]
    data = {
        "artefact": str(folder),
        "kind": origin.kind,
        "complete": not broken and not any(o.state == NAMED for o in everything),
        "verified": verify,
        "states": dict(Counter(o.state for o in everything)),
        "raw_files": sorted({o.path for o in everything if o.kind == "file" and o.state != MISSING}),
        "problems": [{"path": o.path, "problem": p} for o in broken for p in o.problems],
        "tree": origin,
    }
    return Report(data, text=_draw(origin), exit_code=FAILED if broken else DONE)


def _draw(origin: Origin) -> Tree:
    from rich.tree import Tree

    tree = Tree(_line(origin))
    _add_inputs(tree, origin, {origin.digest})
    return tree


def _add_inputs(branch: Tree, origin: Origin, drawn: set[str]) -> None:
    sound_files = 0
    for child in origin.inputs:
        if child.inputs and child.digest in drawn:
            branch.add(f"{_line(child, brief=True)} [dim](shown above)[/]")
            continue
        if child.kind == "file" and child.state == SOUND:
            sound_files += 1
            if sound_files > RAW_FILES_SHOWN:
                continue
        drawn.add(child.digest)
        _add_inputs(branch.add(_line(child)), child, drawn)
    if sound_files > RAW_FILES_SHOWN:
        branch.add(f"[dim]and {sound_files - RAW_FILES_SHOWN:,} more files, all sound[/]")


def _line(origin: Origin, *, brief: bool = False) -> str:
    from rich.markup import escape

    style = STYLES.get(origin.state, "bold red" if origin.state in BROKEN else "dim")
    text = f"[bold]{origin.kind}[/] {escape(origin.path)} [{style}]{origin.state}[/]"
    if brief:
        return text
    if origin.digest and origin.kind != "file":
        text += f" [dim]{origin.digest[:12]}[/]"
    if origin.created:
        text += f"\n[dim]{origin.created}, biosmith {escape(origin.version)}: {escape(origin.command)}[/]"
    numbers = [
        f"{k} {v:,.4f}" if isinstance(v, float) else f"{k} {v:,}"
        for k, v in origin.counts.items()
        if isinstance(v, int | float)
    ]
    if numbers:
        text += f"\n[dim]{escape(', '.join(numbers[:6]))}[/]"
    for problem in origin.problems:
        text += f"\n[bold red]{escape(problem)}[/]"
    return text
