"""Several token stores as one, each seen a given number of times an epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biosmith.errors import UsageError
from biosmith.randomness import derive_key, uniform
from biosmith.tokens.store import Tokens, TokenStore, VocabularyMark

Integers = NDArray[np.int64]


class MixedStores:
    """Token stores one after another, with copies of the documents that are seen more than once an epoch.

    A store of weight 2.5 takes part twice in every epoch, and half of its documents a third time, another half each
    epoch; one of weight 0.1 with a tenth of its documents, one of weight 0 not at all.

    Args:
        stores: made with the same vocabulary.
        weights: how often an epoch goes over each; 1 where not given.

    Raises:
        UsageError: the vocabularies differ, or the weights do not fit the stores.
    """

    def __init__(self, stores: Sequence[TokenStore], weights: Sequence[float] | None = None) -> None:
        weights = list(weights) if weights else [1.0] * len(stores)
        if len(weights) != len(stores) or min(weights) < 0 or max(weights) == 0:
            raise UsageError(
                f"there must be one weight for each of the {len(stores)} token stores, none below 0 and one above, "
                f"not {weights}"
            )
        for store in stores[1:]:
            stores[0].vocabulary.require(store.vocabulary, stores[0].folder, store.folder)
        self.stores, self.weights = list(stores), weights
        self.vocabulary: VocabularyMark = stores[0].vocabulary
        first = np.cumsum([0, *(len(store) for store in stores)])
        copies = [
            (number, copy) for number, weight in enumerate(weights) for copy in range(math.ceil(weight))
        ]
        # A virtual document is (copy, document of that copy's store).
        self._store_of_copy = np.array([number for number, _ in copies])
        self._first_of_copy = np.cumsum([0, *(len(stores[number]) for number, _ in copies)])
        self._share_of_copy = np.array([min(1.0, weights[number] - copy) for number, copy in copies])
        self._first_of_store = first
        self.lengths: NDArray[np.int32] = np.concatenate([stores[number].lengths for number, _ in copies])

    def with_weights(self, weights: Sequence[float]) -> MixedStores:
        """The same stores mixed otherwise."""
        return MixedStores(self.stores, weights)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def documents(self) -> int:
        """Documents of all stores, copies not counted."""
        return int(self._first_of_store[-1])

    def originals(self, documents: Integers) -> Integers:
        """The document that each of these is a copy of, numbered over all stores."""
        copy = np.searchsorted(self._first_of_copy, documents, side="right") - 1
        return documents - self._first_of_copy[copy] + self._first_of_store[self._store_of_copy[copy]]

    def taking_part(self, seed: int, epoch: int) -> NDArray[np.bool_]:
        """Which documents an epoch goes over, [documents]."""
        parts = []
        for copy, (number, share) in enumerate(zip(self._store_of_copy, self._share_of_copy, strict=True)):
            documents = np.arange(len(self.stores[number]), dtype=np.int64)
            key = derive_key(seed, "mixture", epoch, copy)
            parts.append(uniform(key, documents) < share)
        return np.concatenate(parts)

    def gather(
        self, indices: ArrayLike, starts: ArrayLike | None = None, stops: ArrayLike | None = None
    ) -> Tokens:
        """As `TokenStore.gather`."""
        wanted = np.asarray(indices, dtype=np.int64)
        copy = np.searchsorted(self._first_of_copy, wanted, side="right") - 1
        own = wanted - self._first_of_copy[copy]
        number = self._store_of_copy[copy]
        low = np.zeros(len(wanted), dtype=np.int64) if starts is None else np.asarray(starts, dtype=np.int64)
        high = self.lengths[wanted].astype(np.int64) if stops is None else np.asarray(stops, dtype=np.int64)
        offsets = np.zeros(len(wanted) + 1, dtype=np.int64)
        np.cumsum(high - low, out=offsets[1:])
        total = int(offsets[-1])
        ids = np.empty(total, dtype=np.int32)
        words, sentences = np.empty(total, dtype=np.bool_), np.empty(total, dtype=np.bool_)
        for store_number in np.unique(number):
            mine = np.flatnonzero(number == store_number)
            read = self.stores[store_number].gather(own[mine], low[mine], high[mine])
            lengths = np.diff(read.offsets)
            place = np.repeat(offsets[mine] - read.offsets[:-1], lengths) + np.arange(len(read.ids))
            ids[place], words[place], sentences[place] = read.ids, read.word_starts, read.sentence_starts
        return Tokens(ids, words, sentences, offsets)
