"""Documents -> windows -> engine -> mentions -> documents.

>>> import biosmith
>>> nlp = biosmith.load()  # doctest: +SKIP
>>> for document in nlp.annotate(biosmith.read("pubmed26n0001.xml.gz")):  # doctest: +SKIP
...     print(document.id, [m.text for m in document.mentions])
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from biosmith.annotate.annotator import Annotator, OnLong, Step
from biosmith.annotate.engines import Precision, Reader, Settings, choose_engine, open_readers
from biosmith.annotate.released import default_tagger
from biosmith.annotate.tuned import TAGGERS, kind_of, name_of, read_tuned
from biosmith.errors import UsageError

__all__ = ["Annotator", "load"]

log = logging.getLogger("biosmith")

Folder = str | os.PathLike[str]


def load(
    models: Folder | Sequence[Folder] | None = None,
    *,
    engine: str = "auto",
    device: str = "auto",
    on_long: OnLong = "window",
    keep: bool = False,
    precision: Precision = "auto",
    threads: int | None = None,
    normalise: bool = False,
    link: Folder | None = None,
    pairs: tuple[str, str] | None = None,
) -> Annotator:
    """One tuned model or several, ready to annotate documents.

    Taggers add mentions; those that share an encoder read a text together. Models tuned for relations add relations
    between the mentions, classifiers write labels into `document.infons`.

    Args:
        models: folders made by `finetune` or `quantize`, or any token classification folders of Hugging Face; None is
            the tagger of diseases, chemicals and genes that comes with biosmith's sources.
        engine: what scores sequences: "torch", "openvino", "onnx"; "auto" picks by what the folder and the machine
            have (`Annotator.engines` says why).
        device: "auto", "cpu", "cuda", ...
        on_long: what becomes of sentences longer than a model reads: "window", "error" or "truncate".
        keep: keep the mentions and relations that documents bring with them; else those of taggers take their place.
        precision: of the arithmetic: "float32", "bfloat16", "float16"; "auto" is the fastest in hardware.
        threads: cores to use; None is all that this process may use.
        normalise: read plain characters for their variants (hyphens, primes, ligatures, ...); offsets stay.
        link: a vocabulary (TSV or OBO) whose identifiers mentions get by their names.
        pairs: types of the two mentions that relation models are asked about (`Chemical=DRUG`: the model knows that
            type as DRUG); None asks about any two that its training data pairs.

    Raises:
        UsageError: no model, one twice, an unknown engine, a folder that is no tuned model, a device that no model would
            use, `pairs` that no relation model or no tagger can serve, or a vocabulary for types that no tagger finds.
    """
    if models is None:
        models = default_tagger()
    folders = [Path(models)] if isinstance(models, str | os.PathLike) else [Path(m) for m in models]
    if not folders:
        raise UsageError("no model was given")
    places = [folder.resolve() for folder in folders]
    for folder, place in zip(folders, places, strict=True):
        if places.count(place) > 1:
            raise UsageError(f"the model {folder} is given twice")
    if on_long not in ("window", "error", "truncate"):
        raise UsageError(f"on_long {on_long!r} is unknown; valid: window, error, truncate")
    named = {_name(folder, folders): folder for folder in folders}
    kinds = {name: kind_of(folder) for name, folder in named.items()}
    taggers = {name: folder for name, folder in named.items() if kinds[name] in TAGGERS}
    steps: list[Step] = []
    vocabulary = None
    if link is not None:
        from biosmith.annotate.linking import LinkStep, read_vocabulary

        vocabulary = read_vocabulary(Path(link))
        steps.append(LinkStep(vocabulary))
    if not taggers and not keep and "relation" in kinds.values():
        raise UsageError(
            "relations are between mentions: add a tagger's folder, or keep the documents' mentions"
        )
    if pairs is not None and "relation" not in kinds.values():
        raise UsageError("pairs are what relation models are asked about, and no model is one")
    settings = Settings(engine, device, precision, threads)
    _require_device(taggers, settings, others=len(taggers) < len(named))
    readers = open_readers(taggers, settings)
    if pairs is not None and not keep:
        _require_types(pairs, readers)
    if vocabulary is not None and taggers and not keep:
        _require_linkable(link, vocabulary.types, readers)
    for name, folder in named.items():
        if name not in taggers:
            steps.append(_step(name, folder, kinds[name], on_long, device, pairs, normalise))
    return Annotator(readers, on_long=on_long, keep=keep, normalise=normalise, steps=steps)


def _require_device(taggers: Mapping[str, Path], settings: Settings, *, others: bool) -> None:
    """Raise `UsageError` where no model would use the device that was named; warn where some would not.

    Args:
        taggers: by name.
        settings: with the device.
        others: there are models that are no taggers, which run on torch.
    """
    if settings.device == "auto" or settings.device.startswith("cpu"):
        return
    engines = {name: choose_engine(read_tuned(folder), settings).engine for name, folder in taggers.items()}
    without = {name: engine for name, engine in engines.items() if engine != "torch"}
    for name, engine in without.items():
        reason = f"{name} runs on {engine}, which uses processors only: device {settings.device} has no effect on it"
        if len(without) == len(engines) and not others:
            raise UsageError(f"{reason}; --engine torch, with a model that is not quantised, takes a device")
        log.warning("%s", reason)


def _found_types(readers: Sequence[Reader]) -> list[str]:
    """Types of the mentions that taggers find."""
    return sorted({type for reader in readers for head in reader.heads for type in head.label_set.types})


def _require_linkable(link: Folder | None, types: set[str], readers: Sequence[Reader]) -> None:
    """Raise `UsageError` where a vocabulary is for mentions of types that no tagger finds, and would link none."""
    found = _found_types(readers)
    if types and not types & {"", *(type.casefold() for type in found)}:
        shown = ", ".join(sorted(types)[:5])
        raise UsageError(
            f"{link} has names for mentions of type {shown} (its third column), which no tagger finds; valid: "
            f"{', '.join(found)}, or nothing for any"
        )


def _require_types(pairs: tuple[str, str], readers: Sequence[Reader]) -> None:
    """Raise `UsageError` where a type of the pairs is one that no tagger finds."""
    found = _found_types(readers)
    for pair in pairs:
        if (type := pair.partition("=")[0]) not in found:
            raise UsageError(f"pairs: no tagger finds mentions of type {type!r}; valid: {', '.join(found)}")


def _step(
    name: str,
    folder: Path,
    kind: str,
    on_long: OnLong,
    device: str,
    pairs: tuple[str, str] | None,
    plain: bool,
) -> Step:
    """What a model that is no tagger adds."""
    from biosmith.annotate import classes, relations

    if kind == "relation":
        return relations.RelationStep(name, folder, pairs, device, plain=plain)
    if kind in classes.KINDS:
        return classes.ClassStep(name, folder, on_long, device, plain=plain)
    valid = ", ".join((*TAGGERS, "relation", *classes.KINDS))
    raise UsageError(f"{folder} was tuned for {kind}, which annotates nothing; valid: {valid}")


def _name(folder: Path, folders: Sequence[Path]) -> str:
    """The folder's own name, or all of its path where two folders have one name."""
    alike = [f for f in folders if name_of(f) == name_of(folder)]
    return name_of(folder) if len(alike) == 1 else str(folder)
