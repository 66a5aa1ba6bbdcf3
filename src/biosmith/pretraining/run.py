"""`biosmith pretrain` as a function: a recipe and a token store in, a run folder out.

A run is a folder: `config.json` (the settled recipe), `metrics.jsonl`, `loss.png`, `checkpoints/step-N/`, `tokenizer/` (the
vocabulary's files, for the export) and `manifest.json`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from biosmith.artefact import (
    MANIFEST,
    Manifest,
    describe_files,
    describe_input,
    digest_file,
    load_manifest,
    require_new_folder,
    to_plain,
    write_json,
)
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.models import PretrainingModel, load_pretraining_model
from biosmith.models.bert import BertConfig
from biosmith.models.electra import ElectraConfig
from biosmith.models.encoder import start_sinusoidal
from biosmith.pretraining.batches import TokenSource
from biosmith.pretraining.checkpoints import list_checkpoints
from biosmith.pretraining.config import Recipe, recipe_from_plain
from biosmith.pretraining.electra_run import make_electra
from biosmith.pretraining.embedding_transfer import take_over
from biosmith.pretraining.growing import Growth, NewLayers, deepened, grown
from biosmith.pretraining.mixing import MixedStores
from biosmith.pretraining.parallel import Devices, joined
from biosmith.pretraining.planning import recipe_parameters
from biosmith.pretraining.preparing import (
    choose_device,
    make_batch_makers,
    require_same_recipe,
    require_shareable,
    settle,
)
from biosmith.pretraining.step import Trainable
from biosmith.pretraining.tracking import find_trackers
from biosmith.processes import hold_output
from biosmith.progress import say
from biosmith.randomness import derive_key
from biosmith.tokens.store import TokenStore
from biosmith.tokens.vocabulary import copy_file, load_vocabulary

CONFIG, TOKENIZER = "config.json", "tokenizer"


@dataclass(frozen=True)
class Settings:
    """What decides how fast a run is, and nothing else.

    Attributes:
        device: "auto", "cpu" or "cuda".
        workers: processes that prepare batches; None is one for a CPU and four for a CUDA device.
        compile: a mode of torch.compile for the step, or "off"; None is "default" on a CUDA device.
        deterministic: on a CUDA device, use deterministic algorithms only (slower), so that a resumed run is equal
            to the last bit; on a CPU it always is.
        parallel: "ddp" or "fsdp", for several processes started by torchrun.
        tensor_parallel: processes that share every layer; it divides their number.
        activation_checkpointing: keep each layer's input only, and compute the rest again in the backward pass.
        track: trackers that get the log lines, see `tracking`.

    Raises:
        UsageError: less than no worker.
    """

    device: str = "auto"
    workers: int | None = None
    compile: str | None = None
    deterministic: bool = False
    parallel: str = "ddp"
    tensor_parallel: int = 1
    activation_checkpointing: bool = False
    track: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 0:
            raise UsageError(f"--workers must be at least 0, not {self.workers}")


@dataclass(frozen=True)
class Outcome:
    """What a run came to. `stopped` is True if it was asked to stop before its last step."""

    steps: int
    tokens: int
    tokens_per_second: float | None
    loss: float | None
    eval_loss: float | None
    stopped: bool
    skipped_steps: int
    parameters: int


def pretrain(
    recipe: Recipe,
    tokens: Path | Sequence[Path],
    out: Path,
    *,
    init: Path | None = None,
    layers: int | None = None,
    new_layers: NewLayers = "identity",
    resume: bool = False,
    settings: Settings | None = None,
) -> Outcome:
    """Train a model.

    Args:
        recipe: all that decides the run.
        tokens: a token store, or several made with one vocabulary; `batch.weights` of the recipe mixes them.
        out: the run's folder; new, or that of the run to resume.
        init: a Hugging Face folder to go on from (continued pretraining); its architecture replaces the recipe's. If
            the tokens are of another vocabulary, its word embedding is brought to that (`embedding_transfer`).
        layers: with `init`, give its architecture so many layers, more than it has.
        new_layers: how they begin (`growing`).
        resume: go on from the last checkpoint, or begin if there is none yet.
        settings: device, workers, compilation.

    Raises:
        UsageError: the folder exists and `resume` is not set, or its run was begun with another recipe, other tokens
            or another model to start from; the differing keys are named. Another process trains into the folder.
            `layers` without `init`, or for a model that cannot be given so many.
        BadInput: a shard or a checkpoint is missing or damaged. Digests of shards are compared beside the training.
        BiosmithError: the tokens belong to another vocabulary than `init`, which is nowhere to be found; the loss is
            not finite; memory is short.
    """
    from biosmith.pretraining.loop import train

    settings = settings or Settings()
    folders = [tokens] if isinstance(tokens, Path) else list(tokens)
    if not folders:
        raise UsageError("a run needs at least one token store; name it with --tokens")
    if layers is not None and init is None:
        raise UsageError("layers are added to a model to go on from; name it with --init")
    growth = None if layers is None else Growth(layers, new_layers)
    find_trackers(settings.track)  # an unknown one is named before anything is written
    with (
        joined(choose_device(settings.device), settings.parallel, settings.tensor_parallel) as devices,
        held(out, devices),
    ):
        made = _prepare(recipe, folders, out, init, growth, resume, devices) if devices.first else None
        devices.wait()
        recipe, source = read_run(out), _open(folders, recipe)
        require_shareable(recipe, devices.replicas, devices.tensor)
        begin_from = None if list_checkpoints(out) else init
        model = made if made is not None else _make_model(recipe, begin_from, out / TOKENIZER, growth)
        verification = Verification(folders)
        outcome = train(recipe, source, out, model.to(devices.device), settings, devices, verification.check)
        if not outcome.stopped:
            verification.wait()
        if devices.first:
            finish(out, outcome)
        return outcome


def held(out: Path, devices: Devices) -> AbstractContextManager[None]:
    """Keep other calls off a run's folder; the first process does so for all that share the run.

    Raises:
        UsageError: another call trains into it.
    """
    return hold_output(out) if devices.first else contextlib.nullcontext()


class Verification:
    """Reads every byte of token stores beside the training, in the first process of each machine.

    A shard may be hundreds of gigabytes: to wait for it would cost minutes at every start, to trust it hours at the end.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._found: BiosmithError | None = None
        self._thread = threading.Thread(target=self._read, args=(tuple(folders),), daemon=True)
        if os.environ.get("LOCAL_RANK", "0") == "0":  # as torchrun numbers them
            self._thread.start()

    def _read(self, folders: Sequence[Path]) -> None:
        try:
            for folder in folders:
                TokenStore.open(folder, verify="full")
        except BiosmithError as error:
            self._found = error

    def check(self) -> None:
        """Raise `BadInput` if damage was found so far."""
        if self._found is not None:
            raise self._found

    def wait(self) -> None:
        """Raise `BadInput` if there is any damage."""
        if self._thread.ident is not None:
            self._thread.join()
        self.check()


def _open(folders: Sequence[Path], recipe: Recipe) -> TokenSource:
    stores = [TokenStore.open(folder) for folder in folders]
    if len(stores) > 1 or recipe.batch.weights:
        return MixedStores(stores, recipe.batch.weights)
    return stores[0]


def _prepare(
    recipe: Recipe,
    tokens: Sequence[Path],
    out: Path,
    init: Path | None,
    growth: Growth | None,
    resume: bool,
    devices: Devices,
) -> Trainable | None:
    """Check the call, and make the run's folder if it is a new one; the model if that goes on from another one."""
    begun = is_begun(out, resume)
    store, source = TokenStore.open(tokens[0]), _open(tokens, recipe)
    if init is not None:
        recipe = _adopt_architecture(recipe, init, store)
    if growth is not None:
        recipe = dataclasses.replace(recipe, model=deepened(recipe.model, growth))
    if begun:
        _require_same(recipe, tokens, init, growth, out)
        return None
    _require_different(tokens)
    recipe = settle(recipe, source, devices.device, devices.replicas, devices.tensor)
    make_batch_makers(recipe, source)  # what the tokens cannot give is named before anything is written,
    recipe_parameters(recipe)  # and so are heads that a family does not have, and weights that cannot be read
    model = None if init is None else _make_model(recipe, init, vocabulary_folder(store), growth)
    _begin(recipe, store, tokens, out, init, growth)
    return model


def is_begun(out: Path, resume: bool) -> bool:
    """Whether `out` holds a run to go on with; if not, it can hold one.

    Raises:
        UsageError: the folder holds something else, or a run that is not to be resumed.
    """
    if resume and (out / CONFIG).is_file():
        return True
    # A run that was killed before its first file leaves an empty folder or none.
    if resume and out.is_dir() and any(out.iterdir()):
        raise UsageError(
            f"{out} holds no run to resume (it has no {CONFIG}); choose another --out, or remove it"
        )
    require_new_folder(out)
    return False


def _begin(
    recipe: Recipe,
    store: TokenStore,
    tokens: Sequence[Path],
    out: Path,
    init: Path | None,
    growth: Growth | None,
) -> None:
    """Write what a run has before its first step; `config.json` comes last and makes it a run."""
    inputs = [describe_input(path) for path in (*tokens, *([] if init is None else [init]))]
    out.mkdir(parents=True, exist_ok=True)
    _copy_tokenizer(store, out)
    Manifest(
        kind="run",
        config=to_plain(recipe),
        seed=recipe.seed,
        inputs=inputs,
        counts={"vocabulary_digest": store.vocabulary.digest, **_growth_counts(growth)},
    ).save(out)
    write_json(out / CONFIG, recipe)


def finish(out: Path, outcome: object) -> None:
    """Bring the manifest up to date; checkpoints have their own digests."""
    manifest = load_manifest(out, "run")
    names = [name for name in (CONFIG, "metrics.jsonl", "loss.png") if (out / name).is_file()]
    counts = {**manifest.counts, **to_plain(outcome)}
    dataclasses.replace(manifest, files=describe_files(out, names), counts=counts).save(out)


def read_run(out: Path) -> Recipe:
    """The settled recipe of a run folder. Raises as `read_config`, or `UsageError` where a field does not fit."""
    return recipe_from_plain(read_config(out), str(out / CONFIG))


def read_config(out: Path) -> Any:
    """What a run's `config.json` holds.

    Raises:
        UsageError: the folder is no run.
        BadInput: the file is not readable.
    """
    path = out / CONFIG
    if not path.is_file():
        raise UsageError(f"{out} is not a run folder: it has no {CONFIG}")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(path, f"is not JSON: {error}") from error


def _growth_counts(growth: Growth | None) -> dict[str, Any]:
    return {} if growth is None else {"new_layers": growth.new_layers}


def _require_same(
    wanted: Recipe, tokens: Sequence[Path], init: Path | None, growth: Growth | None, out: Path
) -> None:
    """Raise `UsageError` unless a run was begun with this recipe, these tokens, `init` or none, grown alike."""
    manifest = load_manifest(out, "run")
    inputs = manifest.inputs
    begun_from = next((i["path"] for i in inputs if i.get("kind") != "tokens"), None)
    if (init is None) != (begun_from is None):
        raise UsageError(f"{out} was begun {f'with --init {begun_from}' if begun_from else 'without --init'}")
    require_same_recipe(wanted, read_run(out), out)
    begun = [i for i in inputs if i.get("kind") == "tokens"]
    now = [describe_input(path) for path in tokens]
    if _digests(begun) != _digests(now):
        raise UsageError(
            f"{out} was begun with the tokens of {', '.join(i['path'] for i in begun)}, "
            f"not with those of {', '.join(i['path'] for i in now)}"
        )
    if init is not None and _digests([describe_input(init)]) != _digests(inputs[len(begun) :]):
        raise UsageError(f"{out} was begun with --init {begun_from}, which is another model than {init}")
    new_layers = manifest.counts.get("new_layers")
    if growth is not None and growth.new_layers != new_layers:
        raise UsageError(f"{out} was begun with new layers {new_layers!r}, not {growth.new_layers!r}")


def _require_different(tokens: Sequence[Path]) -> None:
    """Raise `UsageError` for a store that is named twice: what is held out of one would be trained on in the other."""
    known: dict[str, Path] = {}
    for folder in tokens:
        digest = digest_file(folder / MANIFEST)
        if digest in known:
            raise UsageError(
                f"{folder} is the same token store as {known[digest]}, which is named before it; to go over one several "
                "times an epoch, name it once and raise its weight, as by --override batch.weights=[2]"
            )
        known[digest] = folder


def _digests(inputs: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [item.get("digest") for item in inputs]


def _adopt_architecture(recipe: Recipe, init: Path, store: TokenStore) -> Recipe:
    """The recipe with the architecture of the model it goes on from; the profile decides about dropout."""
    from biosmith.models import checkpoint

    config, _ = checkpoint.read_config(init)
    if recipe.generator is not None:
        # Two networks share the embedding: it is not brought to another vocabulary.
        store.vocabulary.require(load_vocabulary(init).mark, store.folder, init)
        config = ElectraConfig.like(config) if isinstance(config, BertConfig) else config
    _require_vocabulary(init, config.vocabulary_size, store)
    pad = dict(store.vocabulary.special_tokens).get("pad", config.pad_id)
    model = dataclasses.replace(config, pad_id=pad)
    model = model.without_dropout() if recipe.profile == "fast" else model
    return dataclasses.replace(recipe, model=model)


def _require_vocabulary(init: Path, rows: int, store: TokenStore) -> None:
    """Raise `BiosmithError` unless the tokens were made with the vocabulary of the model, or with one whose pieces can
    be read, so that the model's embedding can be brought to it."""
    mark = load_vocabulary(init).mark
    if store.vocabulary.digest != mark.digest and vocabulary_folder(store) is not None:
        return
    store.vocabulary.require(mark, store.folder, init)
    if rows < store.vocabulary.size:
        raise BiosmithError(
            f"{init} has {rows:,} word embeddings, but its vocabulary has {store.vocabulary.size:,} pieces"
        )


def _make_model(
    recipe: Recipe, init: Path | None, vocabulary: Path | None = None, growth: Growth | None = None
) -> Trainable:
    """A fresh model, initialised from the run's seed, or the one to go on from; `vocabulary` is the tokens' own."""
    torch.manual_seed(derive_key(recipe.seed, "initialise"))
    pairs = recipe.pair_objective is not None
    if init is None:
        fresh: Trainable
        if recipe.generator is not None:
            fresh = make_electra(recipe, None)
        else:
            fresh = PretrainingModel(recipe.model, next_sentence=pairs)
        if recipe.initial_positions == "sinusoidal":
            start_sinusoidal(fresh)
        return fresh
    if recipe.generator is not None:
        return make_electra(recipe, init)
    loaded, _ = load_pretraining_model(init, next_sentence=pairs, dtype=torch.float32)
    model = PretrainingModel(recipe.model, next_sentence=pairs)
    state = loaded.state_dict()
    if growth is not None:
        state = grown(state, growth)
    take_over(model, state, init, vocabulary if vocabulary is not None and vocabulary.exists() else None)
    return model


def vocabulary_folder(store: TokenStore) -> Path | None:
    """The folder or file of the vocabulary that tokens were made with, if it is still there and the same."""
    # It may be a vocabulary of ours, a model's folder, or a file; the other input is the corpus.
    for path in (Path(i["path"]) for i in store.manifest.inputs if i.get("kind") != "corpus"):
        with contextlib.suppress(BiosmithError):  # it holds no vocabulary any more
            if load_vocabulary(path).mark.digest == store.vocabulary.digest:
                return path
    return None


def _copy_tokenizer(store: TokenStore, out: Path) -> None:
    from biosmith.models.saving import TOKENIZER_FILES

    folder = vocabulary_folder(store)
    if folder is None:
        say("The tokens' vocabulary is no longer where it was; name it again when the model is exported.")
        return
    (out / TOKENIZER).mkdir(exist_ok=True)
    if folder.is_file():
        copy_file(folder, out / TOKENIZER)
        return
    for name in TOKENIZER_FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, out / TOKENIZER / name)


__all__ = ["CONFIG", "MANIFEST", "Outcome", "Settings", "pretrain", "read_run"]
