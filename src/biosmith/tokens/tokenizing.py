"""Corpus and vocabulary to a token store: worker processes, progress, and going on after a stop."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from biosmith.artefact import (
    MANIFEST,
    Manifest,
    describe_input,
    digest_file,
    digest_value,
    require_new_folder,
    write_json,
)
from biosmith.errors import BadInput, UsageError
from biosmith.processes import hold_output, map_in_order
from biosmith.progress import progress, say
from biosmith.tokens.encoding import BulkEncoder
from biosmith.tokens.parts import TASKS_OF_A_WORKER, Part, list_parts, read_part
from biosmith.tokens.store import OFFSETS, SHARD_TOKENS, StoreWriter, Tokens, TokenStore, token_dtype
from biosmith.tokens.vocabulary import load_vocabulary

JOURNAL = "journal.json"  # of a store in the making; taken away when the manifest is written
# What a store in the making holds: files, and what a killed run was writing.
_OWN = re.compile(
    rf"(\.)?({re.escape(JOURNAL)}|shard-\d+\.npy|{re.escape(OFFSETS)}|{re.escape(MANIFEST)})(?(1)\.\d+\.tmp)"
)


def tokenize_corpus(
    corpus: Path,
    vocabulary: Path,
    out: Path,
    *,
    workers: int = 1,
    resume: bool = True,
    shard_tokens: int = SHARD_TOKENS,
) -> TokenStore:
    """Make a token store of a corpus.

    The store is the same to the last byte for any number of workers, and whether or not the work was stopped in
    between. A stopped run goes on from its last finished shard when called again with the same corpus and vocabulary.
    Documents without a token are left out and counted (`empty` in the manifest).

    Args:
        corpus: a corpus folder.
        vocabulary: a folder or file that `load_vocabulary` takes.
        out: the folder to make.
        workers: processes.
        resume: go on where an earlier run stopped; False starts again.
        shard_tokens: least number of tokens of a shard, the last one excepted.

    Raises:
        UsageError: `out` exists and is no unfinished store of these inputs, or another process is making it; an input is not what it should be.
        BadInput: a file cannot be read, or the whole corpus has no token.
    """
    if shard_tokens < 1:
        raise UsageError(f"a shard cannot hold {shard_tokens} tokens")
    parts = list_parts(corpus)
    inputs = {
        "corpus": digest_file(corpus / MANIFEST),
        "vocabulary": load_vocabulary(vocabulary).mark.digest,
        "shard_tokens": shard_tokens,
    }
    with hold_output(out):
        return _tokenize(corpus, vocabulary, out, parts, inputs, workers=workers, resume=resume)


def _tokenize(
    corpus: Path,
    vocabulary: Path,
    out: Path,
    parts: Sequence[Part],
    inputs: Mapping[str, Any],
    *,
    workers: int,
    resume: bool,
) -> TokenStore:
    mark, shard_tokens = load_vocabulary(vocabulary).mark, int(inputs["shard_tokens"])
    if resume and _is_finished(out, digest_value(inputs)):
        (out / JOURNAL).unlink()
        return TokenStore.open(out)
    journal = _open_journal(out, digest_value(inputs), resume)
    done, shards = int(journal["parts"]), journal["shards"]
    if done:
        say(f"Going on with {out}: {done:,} of {len(parts):,} parts are done")
    for half in out.glob(".*.tmp"):  # what a killed run was writing
        half.unlink()
    writer = StoreWriter(out, mark, shard_tokens=shard_tokens, done=shards)
    write_json(out / JOURNAL, journal)
    left = parts[done:]
    with progress("Tokenizing", sum(part.documents for part in left)) as advance:
        results = map_in_order(
            _encode_part,
            left,
            workers,
            initializer=_prepare,
            arguments=(vocabulary,),
            tasks_of_a_worker=TASKS_OF_A_WORKER,
        )
        for number, (part, tokens) in enumerate(zip(left, results, strict=True), start=done + 1):
            if writer.append(tokens):
                write_json(out / JOURNAL, {**journal, "parts": number, "shards": writer.shards})
            advance(part.documents)
    if not writer.documents:
        shutil.rmtree(out)
        raise BadInput(corpus, "has no text that gives a token")
    empty = sum(part.documents for part in parts) - writer.documents
    writer.finish(
        Manifest(
            kind="tokens",
            inputs=[describe_input(corpus), describe_input(vocabulary)],
            counts={"empty": empty},
        )
    )
    (out / JOURNAL).unlink()
    return TokenStore.open(out)


def _is_finished(out: Path, inputs: str) -> bool:
    """Whether an earlier run of these inputs was stopped when all but its journal was done."""
    if not (out / MANIFEST).is_file() or not (out / JOURNAL).is_file():
        return False
    try:
        return bool(json.loads((out / JOURNAL).read_text(encoding="utf-8"))["inputs"] == inputs)
    except (ValueError, KeyError, TypeError):
        return False


def _open_journal(out: Path, inputs: str, resume: bool) -> dict[str, Any]:
    """What an earlier run noted down, or a new journal."""
    fresh = {"inputs": inputs, "parts": 0, "shards": []}
    path = out / JOURNAL
    if (out / MANIFEST).exists() or not path.is_file():
        require_new_folder(out)
        return fresh
    if not resume:
        foreign = sorted(file.name for file in out.iterdir() if not _OWN.fullmatch(file.name))
        if foreign:
            raise UsageError(
                f"{out} holds {foreign[0]}, which is not of an unfinished token store; choose another --out, or remove it"
            )
        shutil.rmtree(out)
        return fresh
    try:
        journal = json.loads(path.read_text(encoding="utf-8"))
        same = journal["inputs"] == inputs
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise BadInput(path, f"cannot be read ({error}); use --no-resume to start again") from error
    if not same:
        raise UsageError(
            f"{out} is unfinished and was begun with another corpus, vocabulary or shard size; "
            "give those again, use --no-resume to start again, or choose another --out"
        )
    missing = [shard["name"] for shard in journal["shards"] if not (out / shard["name"]).is_file()]
    if missing:
        raise BadInput(
            out / missing[0], "is missing from the unfinished store; use --no-resume to start again"
        )
    return dict(journal)


_encoder: BulkEncoder | None = None
_dtype: type[np.uint16] | type[np.uint32] = np.uint32


def _prepare(vocabulary: Path) -> None:
    global _encoder, _dtype
    loaded = load_vocabulary(vocabulary)
    _encoder, _dtype = BulkEncoder(loaded.tokenizer), token_dtype(loaded.mark.size)


def _encode_part(part: Part) -> Tokens:
    assert _encoder is not None, "_prepare was not called"
    pieces = [_encoder.encode(documents) for documents in read_part(part)]
    lengths = np.concatenate([np.diff(tokens.offsets) for tokens in pieces])
    return Tokens(
        np.concatenate(
            [tokens.ids.astype(_dtype) for tokens in pieces]
        ),  # half as many bytes between processes
        np.concatenate([tokens.word_starts for tokens in pieces]),
        np.concatenate([tokens.sentence_starts for tokens in pieces]),
        np.concatenate([[0], np.cumsum(lengths)]),
    )
