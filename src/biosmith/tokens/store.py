"""The token store: a corpus as token ids on disk, read without loading it.

A store is a folder (kind `tokens`):

- `shard-00000.npy`, ...: four NumPy arrays one after another in one file: `lengths` int32 [documents], `ids` uint16 or
  uint32 [tokens], `word_starts` and `sentence_starts` uint8 [tokens / 8, rounded up], one bit a token, lowest bit first;
- `offsets.npy`: int64 [documents + 1], where each document begins among all tokens of the store;
- `manifest.json`, written last: a folder without it is not finished.

Documents keep the order of the corpus and never cross a shard. Special tokens are not stored.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biosmith.artefact import MANIFEST, Manifest, describe_files, digest_file, load_manifest, write_by_rename
from biosmith.errors import BadInput, BiosmithError

SHARD_TOKENS = (
    1 << 26
)  # 151 MB a shard of uint16; ten billion tokens are 150 shards, far below the limit of open files
OFFSETS = "offsets.npy"

Verify = Literal["size", "full", "none"]


class Tokens(NamedTuple):
    """Documents one after another: ids int32 [T], word and sentence starts bool [T], offsets int64 [n + 1]."""

    ids: NDArray[np.int32]
    word_starts: NDArray[np.bool_]
    sentence_starts: NDArray[np.bool_]
    offsets: NDArray[np.int64]


@dataclass(frozen=True)
class VocabularyMark:
    """What a store remembers of its vocabulary.

    Attributes:
        size: number of pieces.
        digest: SHA-256 over the ordered pieces and the normaliser, see `biosmith.tokens.vocabulary`.
        cased: whether capital letters are kept.
        special_tokens: ids by role: "pad", "unk", "cls", "sep", "mask" (those that the vocabulary has).
        kind: "wordpiece", "sentencepiece", "bpe".
    """

    size: int
    digest: str
    cased: bool
    special_tokens: Mapping[str, int] = field(default_factory=dict)
    kind: str = "wordpiece"

    def require(self, other: VocabularyMark, store: object, model: object) -> None:
        """Raise `BiosmithError` unless both are the same vocabulary (a store's, and the one it is used with)."""
        if self.digest != other.digest:
            raise BiosmithError(
                f"{store} was made with vocabulary {self}; {model} has {other}. Tokenize again with --vocab {model}."
            )

    def __str__(self) -> str:
        return f"{self.digest[:6]} ({self.size:,} pieces, {'cased' if self.cased else 'uncased'})"


class TokenStore:
    """Random access to the documents of a token store through memory maps; safe to fork and to pickle.

    >>> store = TokenStore.open(folder)  # doctest: +SKIP
    >>> tokens = store.gather([5, 2])  # doctest: +SKIP
    >>> first = tokens.ids[tokens.offsets[0] : tokens.offsets[1]]  # doctest: +SKIP
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.vocabulary = VocabularyMark(**manifest.config["vocabulary"])
        self.documents = int(manifest.counts["documents"])
        self.tokens = int(manifest.counts["tokens"])
        self._names = sorted(name for name in manifest.files if name.startswith("shard-"))
        counts = [manifest.files[name] for name in self._names]
        self._first_document = np.cumsum([0, *(int(c["documents"]) for c in counts)])
        self._first_token = np.cumsum([0, *(int(c["tokens"]) for c in counts)])
        self._offsets: NDArray[np.int64] = np.asarray(_load_offsets(folder / OFFSETS))
        self._lengths: NDArray[np.int32] | None = None
        self._maps: dict[int, tuple[NDArray[Any], NDArray[np.uint8], NDArray[np.uint8]]] = {}

    @staticmethod
    def open(folder: Path | str, verify: Verify = "size") -> TokenStore:
        """Open a store.

        Args:
            folder: what `biosmith tokenize` wrote.
            verify: "size" looks at the size of every file (instant whatever the size), "full" reads every byte and
                compares digests, "none" trusts the manifest.

        Raises:
            UsageError: the folder is not a token store, or was not finished.
            BadInput: a shard is missing, has another size or another digest; the error names it.
        """
        folder = Path(folder)
        manifest = load_manifest(folder, "tokens")
        try:
            _verify_files(folder, manifest, verify)
            store = TokenStore(folder, manifest)
        except (KeyError, TypeError, OverflowError) as error:
            raise BadInput(folder / MANIFEST, f"is not the manifest of a token store: {error!r}") from error
        counts = int(store._first_document[-1]), int(store._first_token[-1])
        if counts != (store.documents, store.tokens) or min(np.diff(store._first_document), default=0) < 0:
            raise BadInput(
                folder / MANIFEST,
                "names shards whose documents and tokens are not as many as its counts say",
                value=counts,
                valid=[(store.documents, store.tokens)],
            )
        if len(store._offsets) != store.documents + 1 or int(store._offsets[-1]) != store.tokens:
            raise BadInput(
                folder / OFFSETS,
                "does not fit the manifest",
                value=len(store._offsets) - 1,
                valid=[store.documents],
            )
        return store

    def __len__(self) -> int:
        return self.documents

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "manifest": self.manifest}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["folder"], state["manifest"])  # type: ignore[misc]

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each document, int32 [documents]; computed at the first use."""
        if self._lengths is None:
            self._lengths = np.diff(self._offsets).astype(np.int32)
        return self._lengths

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each document begins among all tokens, int64 [documents + 1]; a memory map."""
        return self._offsets

    def gather(
        self, indices: ArrayLike, starts: ArrayLike | None = None, stops: ArrayLike | None = None
    ) -> Tokens:
        """Several documents, or a part of each, in the order asked for.

        Args:
            indices: documents, int [n]; repeats are allowed.
            starts: first token of each within its document, int [n]; from the beginning if None.
            stops: past-the-last token of each within its document, int [n]; to the end if None.

        Raises:
            IndexError: a document or a part does not exist.
        """
        documents = np.asarray(indices, dtype=np.int64)
        if documents.size and (documents.min() < 0 or documents.max() >= self.documents):
            raise IndexError(f"{self.folder} has documents 0 to {self.documents - 1}")
        begin, end = self._offsets[documents], self._offsets[documents + 1]
        limit = end
        if stops is not None:
            end = begin + np.asarray(stops, dtype=np.int64)
        if starts is not None:
            begin = begin + np.asarray(starts, dtype=np.int64)
        if np.any(begin < self._offsets[documents]) or np.any(begin > end) or np.any(end > limit):
            raise IndexError(f"{self.folder}: a part asked for lies outside its document")
        shards = np.searchsorted(self._first_document, documents, side="right") - 1
        base = self._first_token[shards]
        offsets = np.zeros(len(documents) + 1, dtype=np.int64)
        np.cumsum(end - begin, out=offsets[1:])
        total = int(offsets[-1])
        ids = np.empty(total, dtype=np.int32)
        words, sentences = np.empty(total, dtype=np.uint8), np.empty(total, dtype=np.uint8)
        # A copy of one contiguous run a document is faster than a fancy index over all tokens.
        rows = zip(
            shards.tolist(),
            (begin - base).tolist(),
            (end - base).tolist(),
            offsets[:-1].tolist(),
            strict=True,
        )
        for shard, first, last, place in rows:
            shard_ids, shard_words, shard_sentences = self._maps.get(shard) or self._map(shard)
            stop, skip = place + last - first, first & 7
            low, high, cut = first >> 3, (last + 7) >> 3, skip + last - first
            ids[place:stop] = shard_ids[first:last]
            words[place:stop] = np.unpackbits(shard_words[low:high], bitorder="little")[skip:cut]
            sentences[place:stop] = np.unpackbits(shard_sentences[low:high], bitorder="little")[skip:cut]
        return Tokens(ids, words.view(np.bool_), sentences.view(np.bool_), offsets)

    def warm(self) -> int:
        """Read all shards once, in order, so that the page cache holds what fits; returns the bytes read.

        Worth it where the store fits in memory: random reads of a cold disk are slower than one pass over it.
        """
        total = 0
        for name in self._names:
            with (self.folder / name).open("rb", buffering=0) as stream:
                while block := stream.read(1 << 24):
                    total += len(block)
        return total

    def _map(self, shard: int) -> tuple[NDArray[Any], NDArray[np.uint8], NDArray[np.uint8]]:
        arrays = map_shard(self.folder / self._names[shard])
        self._maps[shard] = arrays.ids, arrays.word_starts, arrays.sentence_starts
        return self._maps[shard]


class ShardArrays(NamedTuple):
    """The four arrays of a shard; the bit arrays are packed."""

    lengths: NDArray[np.int32]
    ids: NDArray[Any]
    word_starts: NDArray[np.uint8]
    sentence_starts: NDArray[np.uint8]


def map_shard(path: Path) -> ShardArrays:
    """Memory maps of the arrays of a shard. Raises `BadInput` if the file is not a shard."""
    try:
        with path.open("rb") as stream:
            bounds = [_skip_array(stream) for _ in range(4)]
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (ValueError, OSError) as error:
        raise BadInput(path, f"is not a shard of a token store: {error}") from error
    # Documents are read in random order: without this a cold page makes the kernel read up to megabytes around it.
    if hasattr(mmap, "MADV_RANDOM"):
        mapped.madvise(mmap.MADV_RANDOM)
    plain = np.frombuffer(
        mapped, dtype=np.uint8
    )  # slices of a plain array cost a fifth of those of np.memmap
    return ShardArrays(*(plain[begin:end].view(dtype) for begin, end, dtype in bounds))


def token_dtype(vocabulary_size: int) -> type[np.uint16] | type[np.uint32]:
    """uint16 where every id fits, else uint32."""
    return np.uint16 if vocabulary_size <= 1 << 16 else np.uint32


def write_store(
    folder: Path,
    vocabulary: VocabularyMark,
    documents: Iterable[tuple[ArrayLike, ArrayLike, ArrayLike]],
    *,
    shard_tokens: int = SHARD_TOKENS,
) -> TokenStore:
    """Make a store from documents in memory: (ids, word starts, sentence starts), each [T], all of one document.

    `biosmith tokenize` makes large ones; this is for a few documents at hand.
    """
    writer = StoreWriter(folder, vocabulary, shard_tokens=shard_tokens)
    for ids, words, sentences in documents:
        length = len(np.asarray(ids))
        writer.append(
            Tokens(
                np.asarray(ids, np.int32),
                np.asarray(words, bool),
                np.asarray(sentences, bool),
                np.array([0, length]),
            )
        )
    writer.finish(Manifest(kind="tokens"))
    return TokenStore.open(folder)


class StoreWriter:
    """Appends documents to a store, one shard at a time; shards are closed between calls of `append` only.

    Args:
        folder: where the store is written; made if missing.
        vocabulary: what the ids mean.
        shard_tokens: a shard is closed as soon as it holds this many tokens.
        done: shards that an earlier, stopped run finished, as its `shards` said.
    """

    def __init__(
        self,
        folder: Path,
        vocabulary: VocabularyMark,
        *,
        shard_tokens: int = SHARD_TOKENS,
        done: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.vocabulary, self.shard_tokens = folder, vocabulary, shard_tokens
        self.shards: list[dict[str, Any]] = [dict(shard) for shard in done]
        self._dtype = token_dtype(vocabulary.size)
        self._waiting = _Waiting()

    @property
    def documents(self) -> int:
        """Documents with a token so far, those of an earlier run included."""
        return self._waiting.documents + sum(int(shard["documents"]) for shard in self.shards)

    def append(self, tokens: Tokens) -> bool:
        """Add documents; those without a token are left out. True if a shard was closed by it."""
        lengths = np.diff(tokens.offsets)
        waiting = self._waiting
        waiting.lengths.append(lengths[lengths > 0].astype(np.int32))
        waiting.ids.append(tokens.ids.astype(self._dtype, copy=False))
        waiting.word_starts.append(tokens.word_starts)
        waiting.sentence_starts.append(tokens.sentence_starts)
        waiting.documents += len(waiting.lengths[-1])
        waiting.tokens += len(tokens.ids)
        if waiting.tokens >= self.shard_tokens:
            self._close_shard()
            return True
        return False

    def _close_shard(self) -> None:
        name = f"shard-{len(self.shards):05d}.npy"
        waiting = self._waiting
        columns = (
            (np.dtype(np.int32), waiting.documents, waiting.lengths),
            (np.dtype(self._dtype), waiting.tokens, waiting.ids),
            (np.dtype(np.uint8), -(-waiting.tokens // 8), waiting.word_starts.packed()),
            (np.dtype(np.uint8), -(-waiting.tokens // 8), waiting.sentence_starts.packed()),
        )
        try:
            with write_by_rename(self.folder / name) as temporary, temporary.open("wb") as stream:
                for dtype, length, pieces in columns:
                    _write_array(stream, dtype, length, pieces)
        except OSError as error:  # a full disk does not say which
            raise OSError(error.errno, error.strerror, str(self.folder / name)) from error
        described = describe_files(self.folder, [name])[name]
        counts = {
            "documents": waiting.documents,
            "tokens": waiting.tokens,
            "words": waiting.word_starts.ones,
            "sentences": waiting.sentence_starts.ones,
        }
        self.shards.append({"name": name, **described, **counts})
        self._waiting = _Waiting()

    def finish(self, manifest: Manifest) -> Manifest:
        """Close the last shard, write the offsets and then the manifest, which gets the files, counts and vocabulary."""
        if self._waiting.tokens:
            self._close_shard()
        lengths = [map_shard(self.folder / shard["name"]).lengths for shard in self.shards]
        offsets = np.zeros(sum(map(len, lengths)) + 1, dtype=np.int64)
        if lengths:
            np.cumsum(np.concatenate(lengths), out=offsets[1:])
        with write_by_rename(self.folder / OFFSETS) as temporary, temporary.open("wb") as stream:
            np.save(stream, offsets, allow_pickle=False)
        totals = {
            k: sum(int(s[k]) for s in self.shards) for k in ("documents", "tokens", "words", "sentences")
        }
        files = {s["name"]: {k: v for k, v in s.items() if k != "name"} for s in self.shards}
        files.update(describe_files(self.folder, [OFFSETS]))
        return Manifest(
            kind="tokens",
            config={**manifest.config, "vocabulary": self.vocabulary, "shard_tokens": self.shard_tokens},
            seed=manifest.seed,
            inputs=manifest.inputs,
            files=files,
            counts={**manifest.counts, **totals},
            command=manifest.command,
        ).save(self.folder)


class _Bits:
    """Bits that come in runs of any length, packed as they come."""

    def __init__(self) -> None:
        self.ones = 0
        self._bytes: list[NDArray[np.uint8]] = []
        self._rest = np.zeros(0, dtype=np.bool_)  # fewer than eight

    def append(self, bits: NDArray[np.bool_]) -> None:
        self.ones += int(np.count_nonzero(bits))
        bits = np.concatenate([self._rest, bits])
        whole = len(bits) & ~7
        self._bytes.append(np.packbits(bits[:whole], bitorder="little"))
        self._rest = bits[whole:]

    def packed(self) -> list[NDArray[np.uint8]]:
        return [*self._bytes, np.packbits(self._rest, bitorder="little")]


@dataclass
class _Waiting:
    """What has come for the next shard: 2.25 bytes a token of uint16."""

    lengths: list[NDArray[np.int32]] = field(default_factory=list)
    ids: list[NDArray[Any]] = field(default_factory=list)
    word_starts: _Bits = field(default_factory=_Bits)
    sentence_starts: _Bits = field(default_factory=_Bits)
    documents: int = 0
    tokens: int = 0


def _write_array(
    stream: IO[bytes], dtype: np.dtype[Any], length: int, pieces: Sequence[NDArray[Any]]
) -> None:
    """What `np.save` would write of the pieces put together, without putting them together."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(stream, header)
    for piece in pieces:
        stream.write(piece.tobytes())


def _skip_array(stream: IO[bytes]) -> tuple[int, int, np.dtype[Any]]:
    """Byte range and type of the array that begins here; the stream is left behind it."""
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"unknown array format {version}")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    begin = stream.tell()
    end = begin + int(np.prod(shape)) * dtype.itemsize
    stream.seek(end)
    return begin, end, dtype


def _load_offsets(path: Path) -> NDArray[np.int64]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise BadInput(path, f"cannot be read: {error}") from error


def _verify_files(folder: Path, manifest: Manifest, verify: Verify) -> None:
    if verify == "none":
        return
    for name, described in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise BadInput(path, "is missing; tokenize again, or copy the store again")
        if path.stat().st_size != described["bytes"]:
            raise BadInput(
                path,
                "is cut or damaged",
                value=f"{path.stat().st_size} bytes",
                valid=[f"{described['bytes']} bytes"],
            )
        if verify == "full" and digest_file(path) != described["digest"]:
            raise BadInput(
                path, "is damaged: its digest is not the one in the manifest; copy or tokenize again"
            )
