"""`biosmith generate`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from biosmith.cli import Report

if TYPE_CHECKING:
    from biosmith.generate.decoding import Decoding
    from biosmith.models.vae_folder import LoadedVae

Strategy = Literal["greedy", "beam", "top-k", "nucleus"]
Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class Writing:
    """How sentences are written.

    Attributes:
        strategy: how sentences are written.
        beams: sentences in sight (beam).
        top_k: pieces to draw from (top-k).
        top_p: their probability together (nucleus).
        temperature: of the draws of pieces.
        seed: of all draws.
    """

    strategy: Strategy = "greedy"
    beams: int = 4
    top_k: int = 40
    top_p: float = 0.9
    temperature: float = 1.0
    seed: int = 0

    def decoding(self) -> Decoding:
        """As the decoder takes it."""
        from biosmith.generate.decoding import Decoding

        return Decoding(**vars(self))


def reconstruct(
    *,
    model: Path,
    text: tuple[str, ...] = (),
    file: Path | None = None,
    out: Path | None = None,
    draw: bool = False,
    writing: Annotated[Writing, tyro.conf.OmitArgPrefixes] = Writing(),
    strict: bool = False,
    device: Device = "auto",
) -> Report:
    """Send sentences through the latent space and back, and score what returns.

    Example: biosmith generate reconstruct --model models/biovae --text "Angiogenesis is essential for tumor growth."

    Example: biosmith generate reconstruct --model models/biovae --file sentences.txt --strategy beam --out back.jsonl

    Args:
        model: what `biosmith export` made of a run, or `biosmith convert` of a checkpoint.
        text: a sentence; may be given several times.
        file: sentences, one a line.
        out: JSONL file of the sentences.
        draw: take a draw from q(z|x) instead of its mean.
        writing: how sentences are written.
        strict: stop at an empty or over-long sentence instead of setting it aside.
        device: where the model runs.
    """
    from biosmith.generate.sentences import readable, summarise_reconstructions
    from biosmith.generate.sentences import reconstruct as run
    from biosmith.rejects import Rejects

    vae = _load(model, device, out)
    aside = None if out is None else out.with_name(out.name + ".rejects.jsonl")
    if aside is not None:
        aside.unlink(missing_ok=True)  # of another call
    with Rejects(aside, strict=strict) as rejects:
        texts = readable(vae, _texts(text, file), rejects)
    found = run(vae, texts, writing.decoding(), draw=draw)
    rows = [vars(item) for item in found]
    _write(out, rows)
    data = {**summarise_reconstructions(vae, found), "sentences": rows, "set_aside": rejects.count}
    shown = [("", "text", "perplexity", "BLEU")]
    for item in found:
        shown.append(("input", item.text, f"{item.perplexity:.3f}", ""))
        shown.append(("output", item.written, "", f"{item.bleu:.1f}"))
    listed = None if aside is None or not rejects.count else str(aside)
    return Report(_plain(data), _table(shown), set_aside=rejects.count, set_aside_file=listed)


def interpolate(
    *,
    model: Path,
    text: tuple[str, ...] = (),
    file: Path | None = None,
    steps: int = 7,
    way: Literal["linear", "spherical", "both"] = "both",
    out: Path | None = None,
    html: Path | None = None,
    writing: Annotated[Writing, tyro.conf.OmitArgPrefixes] = Writing(),
    device: Device = "auto",
) -> Report:
    """Write the sentences on the way from one sentence to another, and from the third to the fourth, and so on.

    Example: biosmith generate interpolate --model models/biovae --text "Tumors grow." "Patients died." --html paths.html

    Args:
        model: a latent-variable model.
        text: sentences, in pairs; may be given several times.
        file: sentences, one a line, in pairs.
        steps: sentences of a path, both ends included.
        way: "linear", "spherical" (along the arc between the latent vectors), or both.
        out: JSONL file of the sentences.
        html: page that shows the paths side by side.
        writing: how sentences are written.
        device: where the model runs.
    """
    from biosmith.errors import UsageError
    from biosmith.generate.page import Pair, Way, write_page
    from biosmith.generate.scores import edit_distance
    from biosmith.generate.sentences import interpolate as run
    from biosmith.generate.sentences import readable

    vae = _load(model, device, out, html)
    texts = readable(vae, _texts(text, file))
    if len(texts) % 2:
        raise UsageError(f"an interpolation takes sentences in pairs; there are {len(texts)}")
    how = writing.decoding()
    ways: Sequence[Literal["linear", "spherical"]] = ("linear", "spherical") if way == "both" else (way,)
    rows: list[dict[str, Any]] = []
    pairs = []
    shown = [("", "text", "perplexity", "")]
    for one, other in zip(texts[::2], texts[1::2], strict=True):
        paths = {name: run(vae, one, other, steps, name, how) for name in ways}
        pairs.append(Pair(one, other, [Way(name, path) for name, path in paths.items()]))
        for name, path in paths.items():
            shown.append((name, f"{one}  →  {other}", "", ""))
            for before, step in zip([path[0], *path], path, strict=False):
                changed = edit_distance(before.written, step.written)
                rows.append({"from": one, "to": other, "way": name, **vars(step), "edit_distance": changed})
                shown.append((f"{step.place:.2f}", step.written, f"{step.perplexity:.3f}", ""))
    _write(out, rows)
    data: dict[str, Any] = {"paths": rows}
    if html is not None:
        about = f"Paths through the latent space of {model.name}, {how.strategy} decoding."
        write_page(html, pairs, f"Interpolations by {model.name}", about)
        data["html"] = str(html)
    return Report(_plain(data), _table(shown))


def sample(
    *,
    model: Path,
    count: int = 10,
    out: Path | None = None,
    writing: Annotated[Writing, tyro.conf.OmitArgPrefixes] = Writing("nucleus"),
    device: Device = "auto",
) -> Report:
    """Write new sentences from draws of the prior.

    Example: biosmith generate sample --model models/biovae --count 20 --seed 1 --out new.jsonl

    Args:
        model: a latent-variable model.
        count: sentences.
        out: JSONL file of the sentences.
        writing: how sentences are written.
        device: where the model runs.
    """
    from biosmith.generate.sentences import sample as run
    from biosmith.generate.sentences import variety

    vae = _load(model, device, out)
    found = run(vae, count, writing.decoding())
    rows = [{"written": item.written, "perplexity": item.perplexity} for item in found]
    _write(out, rows)
    shown = [("", "text", "perplexity", "")]
    shown += [(str(n), item.written, f"{item.perplexity:.3f}", "") for n, item in enumerate(found, start=1)]
    data = {"sentences": rows, **variety([item.written for item in found])}
    return Report(_plain(data), _table(shown))


def analogy(
    *,
    model: Path,
    text: tuple[str, ...],
    writing: Annotated[Writing, tyro.conf.OmitArgPrefixes] = Writing(),
    device: Device = "auto",
) -> Report:
    """Write the sentence that is to the third as the second is to the first.

    Example: biosmith generate analogy --model models/biovae --text "One patient died." "Two patients died." "One tumor grew."

    Args:
        model: a latent-variable model.
        text: three sentences.
        writing: how sentences are written.
        device: where the model runs.
    """
    from biosmith.errors import UsageError
    from biosmith.generate.sentences import analogy as run
    from biosmith.generate.sentences import readable

    if len(text) != 3:
        raise UsageError(f"an analogy takes three sentences, not {len(text)}")
    vae = _load(model, device)
    a, b, c = readable(vae, _texts(text, None))
    step = run(vae, a, b, c, writing.decoding())
    data = {"a": a, "b": b, "c": c, "written": step.written, "perplexity": step.perplexity}
    return Report(_plain(data), step.written)


def _load(model: Path, device: str, *outputs: Path | None) -> LoadedVae:
    """The model; outputs that could not be written are refused first."""
    from biosmith.artefact import require_writable
    from biosmith.models.vae_folder import load_vae
    from biosmith.tasks.training import choose_device

    for output in outputs:
        if output is not None:
            require_writable(output)
    wanted = choose_device(device)
    vae = load_vae(model)
    vae.model.to(wanted)
    return vae


def _texts(text: Sequence[str], file: Path | None) -> list[str]:
    from biosmith.errors import BadInput, UsageError

    found = list(text)
    if file is not None:
        if not file.is_file():
            raise UsageError(f"{file} does not exist; expected a text file, one sentence a line")
        try:
            # A mark at its beginning is no part of a sentence; `splitlines` would cut at Unicode's rarer line ends too.
            whole = file.read_text(encoding="utf-8-sig")
            found += whole.removesuffix("\n").split("\n") if whole else []
        except UnicodeDecodeError as error:
            raise BadInput(file, f"is not UTF-8: {error}") from error
    if not found:
        raise UsageError("no sentence was given; use --text or --file")
    for sentence in found:
        # What Python makes of bytes that are no UTF-8.
        if any("\ud800" <= letter <= "\udfff" for letter in sentence):
            raise UsageError(f"--text {sentence!r} is not UTF-8")
    return found


def _write(out: Path | None, rows: Sequence[dict[str, Any]]) -> None:
    from biosmith.artefact import write_by_rename

    if out is not None:
        with write_by_rename(out) as temporary:
            lines = (json.dumps(_plain(row), ensure_ascii=False) + "\n" for row in rows)
            temporary.write_text("".join(lines), encoding="utf-8")


def _plain(value: Any) -> Any:
    """The same with null for numbers that JSON does not know: the perplexity of a sentence that a model holds for
    impossible is infinite."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(rows: Sequence[tuple[str, str, str, str]]) -> object:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), show_edge=False)
    for number, name in enumerate(rows[0]):
        table.add_column(name, overflow="fold", justify="right" if number > 1 else "left")
    for row in rows[1:]:
        table.add_row(*(Text(cell) for cell in row))
    return table
