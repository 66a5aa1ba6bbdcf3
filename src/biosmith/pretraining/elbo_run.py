"""The training of a latent-variable model as a function: a recipe and a sentence store in, a run folder out.

The folder is as any run's: `config.json`, `metrics.jsonl`, `loss.png`, `checkpoints/step-N/`, `tokenizer/` (the two
vocabularies, `reading` and `writing`), `manifest.json`. It starts from a BERT folder and a GPT-2 folder, or either afresh.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from biosmith.artefact import (
    Manifest,
    describe_input,
    load_manifest,
    require_new_folder,
    to_plain,
    write_json,
)
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.models.bert import BertConfig
from biosmith.models.checkpoint import load_encoder, read_config
from biosmith.models.gpt2 import Decoder
from biosmith.models.gpt2_names import load_decoder, read_decoder_config
from biosmith.models.vae import VaeConfig, VariationalAutoencoder
from biosmith.models.vae_folder import encode_texts, load_tokenizer, save_vae, vocabulary_digest
from biosmith.pretraining.checkpoints import MODEL, list_checkpoints, read_state
from biosmith.pretraining.elbo_config import VaeRecipe, vae_recipe_from_plain
from biosmith.pretraining.exporting import Export, find_checkpoint
from biosmith.pretraining.parallel import Devices, joined
from biosmith.pretraining.preparing import choose_device, require_same_recipe
from biosmith.pretraining.run import CONFIG, TOKENIZER, Settings, finish, held, is_begun
from biosmith.pretraining.run import read_config as read_run_config
from biosmith.pretraining.sentence_batches import SentenceBatchMaker, split_documents
from biosmith.pretraining.sentences import READING, SIDES, WRITING, SentenceStore
from biosmith.pretraining.tracking import find_trackers
from biosmith.progress import say
from biosmith.randomness import derive_key

CPU_MICRO_BATCH = 4_096
CUDA_MICRO_BATCH = 32_768
PROBE = (
    "Tumor necrosis factor-alpha (TNF-α) was measured in 37 patients; p < 0.05 for IL-6, BRCA1 and metformin."
)


@dataclass(frozen=True)
class VaeOutcome:
    """What a run came to; the scores are those of the last evaluation."""

    steps: int
    sentences: int
    tokens: int
    sentences_per_second: float | None
    tokens_per_second: float | None
    loss: float | None
    eval_loss: float | None
    reconstruction: float | None
    kl: float | None
    active_units: int | None
    mutual_information: float | None
    collapsed: bool
    stopped: bool
    skipped_steps: int
    parameters: int


def is_vae_run(run: Path) -> bool:
    """Whether a folder is a run of a latent-variable model."""
    try:
        data = json.loads((run / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and isinstance(data.get("objective"), dict)


def pretrain_vae(
    recipe: VaeRecipe,
    sentences: Path,
    out: Path,
    *,
    init: Path | None = None,
    init_decoder: Path | None = None,
    resume: bool = False,
    settings: Settings | None = None,
) -> VaeOutcome:
    """Train a latent-variable model.

    Args:
        recipe: all that decides the run.
        sentences: what `sentences.build_sentences` made.
        out: the run's folder; new, or that of the run to resume.
        init: a BERT folder to start the encoder from; its architecture replaces the recipe's.
        init_decoder: a GPT-2 folder to start the decoder from; likewise.
        resume: go on from the last checkpoint, or begin if there is none yet.
        settings: device, workers, compilation.

    Raises:
        UsageError: the folder exists and `resume` is not set, or its run was begun with something else, which is named.
            Another process trains into the folder.
        BadInput: a part is missing, damaged or of another architecture.
        BiosmithError: the sentences are of another vocabulary than `init` or `init_decoder`; the loss is not finite;
            memory is short.
    """
    from biosmith.pretraining.elbo_loop import train

    settings = settings or Settings()
    for option, value in (
        ("--parallel fsdp", settings.parallel != "ddp"),
        ("--tensor-parallel", settings.tensor_parallel != 1),
        ("--activation-checkpointing", settings.activation_checkpointing),
    ):
        if value:
            raise UsageError(
                f"{option} is not for {recipe.name}: each device has a whole latent-variable model"
            )
    find_trackers(settings.track)  # an unknown one is named before anything is written
    with joined(choose_device(settings.device)) as devices, held(out, devices):
        store = SentenceStore.open(sentences)
        made = _prepare(recipe, store, out, init, init_decoder, resume, devices) if devices.first else None
        devices.wait()
        recipe = read_vae_run(out)
        _require_shareable(recipe, store, devices.size)
        fresh = not list_checkpoints(out)
        if (model := made) is None:
            model = make_model(recipe, init if fresh else None, init_decoder if fresh else None)
        outcome = train(recipe, store, out, model.to(devices.device), settings, devices)
        if devices.first:
            finish(out, outcome)
        return outcome


def _prepare(
    recipe: VaeRecipe,
    store: SentenceStore,
    out: Path,
    init: Path | None,
    init_decoder: Path | None,
    resume: bool,
    devices: Devices,
) -> VariationalAutoencoder | None:
    """Check the call, and make the run's folder and its model if it is a new one."""
    begun = is_begun(out, resume)
    settled = settle(recipe, store, init, init_decoder, devices.device, devices.size)
    inputs = [describe_input(path) for path in (store.folder, init, init_decoder) if path is not None]
    if begun:
        # What the call leaves open is that of the run, wherever it goes on.
        wanted = dataclasses.replace(settled, batch=recipe.batch, precision=recipe.precision)
        _require_same(wanted, inputs, out)
        return None
    training, _ = split_documents(store, settled.evaluation.documents, settled.seed)
    tokens = settled.batch.micro_batch_tokens or settled.batch.length
    # What the sentences cannot give is named before anything is written.
    SentenceBatchMaker(store, training, tokens=tokens, length=settled.batch.length)
    model = make_model(settled, init, init_decoder)  # and so are weights that cannot be read
    out.mkdir(parents=True, exist_ok=True)
    for side in SIDES:
        shutil.copytree(store.folder / side, out / TOKENIZER / side, dirs_exist_ok=True)
    digests = {f"{side}_vocabulary": store.vocabulary(side)["digest"] for side in SIDES}
    config = to_plain(settled)
    Manifest(kind="run", config=config, seed=settled.seed, inputs=inputs, counts=digests).save(out)
    write_json(out / CONFIG, settled)
    return model


def settle(
    recipe: VaeRecipe,
    store: SentenceStore,
    init: Path | None,
    init_decoder: Path | None,
    device: torch.device,
    devices: int = 1,
) -> VaeRecipe:
    """The recipe with what it leaves open decided: architectures, vocabulary sizes, micro-batch, precision.

    Args:
        recipe: with its overrides.
        store: the sentences.
        init, init_decoder: folders that encoder and decoder start from.
        device: of one process.
        devices: how many there are, which share the micro-batches of an update.

    Raises:
        UsageError: they cannot share them evenly.
        BadInput, BiosmithError: a folder does not fit.
    """
    model, fast = recipe.model, recipe.profile == "fast"
    encoder, decoder = model.encoder, model.decoder
    if init is not None:
        found, _ = read_config(init)
        if not isinstance(found, BertConfig):
            raise BadInput(init, "the encoder has to be a BERT model", value=found.kind, valid=["bert"])
        _require_vocabulary(init, store, READING, found.vocabulary_size)
        encoder = found.without_dropout() if fast else found
    else:
        size = int(store.vocabulary(READING)["size"])
        encoder = dataclasses.replace(encoder, vocabulary_size=size, pad_id=store.special(READING).pad)
    if init_decoder is not None:
        given = read_decoder_config(init_decoder)
        _require_vocabulary(init_decoder, store, WRITING, given.vocabulary_size)
        decoder = given.without_dropout() if fast else given
    special = store.special(WRITING)
    decoder = dataclasses.replace(
        decoder,
        vocabulary_size=int(store.vocabulary(WRITING)["size"]),
        pad_id=special.pad,
        begin_id=special.begin,
        end_id=special.end,
    )
    batch = recipe.batch
    if batch.micro_batch_tokens is None:
        most = CPU_MICRO_BATCH if device.type == "cpu" else CUDA_MICRO_BATCH
        wanted = batch.sentences * (float(store.lengths(WRITING).mean()) + 1)
        if devices > 1:
            wanted /= devices * math.ceil(wanted / devices / most)
        batch = dataclasses.replace(batch, micro_batch_tokens=max(batch.length, min(most, int(wanted))))
    precision = recipe.precision
    if precision == "auto":
        precision = "float32" if device.type == "cpu" else "bfloat16" if fast else "mixed"
    model = dataclasses.replace(model, encoder=encoder, decoder=decoder)
    recipe = dataclasses.replace(recipe, model=model, batch=batch, precision=precision)
    _require_shareable(recipe, store, devices)
    return recipe


def _require_shareable(recipe: VaeRecipe, store: SentenceStore, devices: int) -> None:
    count = micro_batches(recipe, store)
    if count % devices:
        raise UsageError(
            f"an update of {recipe.batch.sentences:,} sentences is {count} micro-batches of "
            f"{recipe.batch.micro_batch_tokens:,} tokens, which {devices} devices cannot share evenly; begin the run "
            "with another batch.micro_batch_tokens or batch.sentences"
        )


def micro_batches(recipe: VaeRecipe, store: SentenceStore) -> int:
    """Micro-batches of one update."""
    a_sentence = float(store.lengths(WRITING).mean()) + 1
    tokens = recipe.batch.micro_batch_tokens or 1
    return max(1, round(recipe.batch.sentences * a_sentence / tokens))


def _require_vocabulary(folder: Path, store: SentenceStore, side: str, rows: int) -> None:
    """Raise `BiosmithError` unless a model's vocabulary cuts text as the store's does.

    The store's may have tokens more than the decoder's: those that mark a sentence's ends, which GPT-2 lacks.
    """
    known = store.vocabulary(side)
    role = {READING: "encoder", WRITING: "decoder"}[side]
    theirs, ours = load_tokenizer(folder), load_tokenizer(store.folder / side)
    same = encode_texts(theirs, [PROBE]) == encode_texts(ours, [PROBE])
    same = same and (side == WRITING or int(known["size"]) <= rows)
    ids, wanted = theirs.get_vocab(), ours.get_vocab()
    if not same or any(wanted.get(piece) != number for piece, number in ids.items()):
        raise BiosmithError(
            f"{store.folder} was made with another {role} vocabulary ({known['size']:,} pieces, {known['digest'][:6]}) than "
            f"that of {folder} ({len(theirs):,} pieces, {vocabulary_digest(folder)[:6]}); make the sentences again with "
            f"{'--vocab' if side == READING else '--decoder-vocab'} {folder}"
        )
    if rows < len(ids):
        raise BadInput(folder, f"has {rows:,} word embeddings, but its vocabulary has {len(ids):,} pieces")


def make_model(recipe: VaeRecipe, init: Path | None, init_decoder: Path | None) -> VariationalAutoencoder:
    """A model initialised from the run's seed, with the encoder and decoder given instead of fresh ones."""
    torch.manual_seed(derive_key(recipe.seed, "initialise"))
    model = VariationalAutoencoder(recipe.model)
    if init is not None and model.encoder is not None:
        loaded, _ = load_encoder(init, dtype=torch.float32)
        model.encoder.load_state_dict(loaded.state_dict(), strict=False)
        if loaded.pooler is None:
            say(f"{init} has no pooler: initialised afresh")
    if init_decoder is not None:
        _fill_decoder(model.decoder, load_decoder(init_decoder), init_decoder)
    return model


def _fill_decoder(decoder: Decoder, given: Decoder, folder: Path) -> None:
    """Copy a decoder's weights; rows of tokens it does not have stay as they were drawn."""
    state = given.state_dict()
    rows, ours = state["words.weight"].shape[0], decoder.words.weight
    if rows < ours.shape[0]:
        say(f"{folder} has {rows:,} word embeddings: {ours.shape[0] - rows} more are initialised afresh")
    with torch.no_grad():
        ours[: min(rows, ours.shape[0])] = state.pop("words.weight")[: ours.shape[0]]
    decoder.load_state_dict(state, strict=False)


def read_vae_run(out: Path) -> VaeRecipe:
    """The settled recipe of a run folder. Raises as `run.read_config`, or `UsageError` where a field does not fit."""
    return vae_recipe_from_plain(read_run_config(out), str(out / CONFIG))


def _require_same(wanted: VaeRecipe, inputs: list[dict[str, Any]], out: Path) -> None:
    """Raise `UsageError` unless a run was begun with this recipe and these inputs."""
    require_same_recipe(wanted, read_vae_run(out), out)
    begun = load_manifest(out, "run").inputs
    if [item.get("digest") for item in begun] != [item.get("digest") for item in inputs]:
        one, other = (", ".join(str(item["path"]) for item in items) for items in (begun, inputs))
        raise UsageError(f"{out} was begun from {one}, not from {other}")


def export_vae_run(run: Path, out: Path, *, step: int | None = None) -> Export:
    """Write a run's model as a folder whose `encoder` and `decoder` are Hugging Face folders. That the run's posterior
    has collapsed is said, as nothing that such a model writes depends on what it has read.

    Raises:
        UsageError: no such run or checkpoint, or `out` holds something.
        BadInput: a checkpoint is damaged.
    """
    require_new_folder(out)
    recipe = read_vae_run(run)
    checkpoint = find_checkpoint(run, step)
    model = load_checkpoint_model(checkpoint, recipe)
    manifest = load_manifest(run, "run")
    if manifest.counts.get("collapsed"):
        say(
            f"Warning: the posterior of {run} had collapsed at its last evaluation ({manifest.counts['active_units']} of "
            f"{recipe.model.latent_size} latent units active): its sentences say little or nothing of the latent vector"
        )
    number = int(checkpoint.name.removeprefix("step-"))
    shown = {
        key: manifest.counts[key] for key in ("loss", "eval_loss", "sentences") if key in manifest.counts
    }
    made = Manifest(
        kind="model",
        config=to_plain(recipe),
        seed=recipe.seed,
        inputs=[describe_input(run)],
        counts={"step": number, **shown},
    )
    objective = recipe.objective
    save_vae(
        out,
        model,
        encoder_vocabulary=run / TOKENIZER / READING,
        decoder_vocabulary=run / TOKENIZER / WRITING,
        manifest=made,
        more={"beta": objective.beta, "free_bits": objective.free_bits, "length": recipe.batch.length},
    )
    parameters = sum(p.numel() for p in model.parameters())
    return Export(out, number, parameters, "VariationalAutoencoder")


def load_checkpoint_model(checkpoint: Path, recipe: VaeRecipe) -> VariationalAutoencoder:
    """The model of a checkpoint, in evaluation mode. Its configuration has the usual dropout again, for fine-tuning."""
    config: VaeConfig = recipe.model
    if recipe.profile == "fast":
        usual = BertConfig()
        encoder = dataclasses.replace(
            config.encoder,
            dropout=config.encoder.dropout or usual.dropout,
            attention_dropout=config.encoder.attention_dropout or usual.attention_dropout,
        )
        config = dataclasses.replace(config, encoder=encoder)
    read_state(checkpoint)  # checks the digests of the files
    with torch.device("meta"):
        model = VariationalAutoencoder(config)
    model.load_state_dict(load_file(checkpoint / MODEL), assign=True)
    return model.eval()
