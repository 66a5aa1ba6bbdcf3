"""Random numbers as pure functions of a key and a counter (Salmon et al., 2011).

Every choice in biosmith that looks random (order, masks, pairs, dropout of documents) is drawn from here by
(seed, stream, epoch, index), so that resuming is an integer and the number of workers changes nothing but speed.
The generator is the SplitMix64 finaliser applied to a keyed counter; it is vectorised over the counter.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK64 = (1 << 64) - 1


def derive_key(seed: int, stream: str, *parts: int) -> int:
    """A 64-bit key from a seed, the name of what is drawn ("order", "mask", ...) and integers such as the epoch."""
    text = "\x1f".join([str(int(seed)), stream, *(str(int(part)) for part in parts)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def random_bits(key: int, counter: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 random bits for each value of the counter; the same (key, counter) always gives the same bits."""
    with np.errstate(over="ignore"):
        z = counter.astype(np.uint64) * _GOLDEN + np.uint64(key & _MASK64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(key: int, counter: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) with 53 random bits, one for each value of the counter."""
    return (random_bits(key, counter) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(key: int, counter: NDArray[np.uint64] | NDArray[np.int64], high: int) -> NDArray[np.int64]:
    """Integers in [0, high), one for each value of the counter (bias below 2**-53 * high)."""
    return np.minimum((uniform(key, counter) * high).astype(np.int64), high - 1)


def permute(key: int, index: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Where a keyed pseudo-random permutation of range(size) sends each index, without holding the permutation.

    A four-round Feistel network over the next even power of two, walked until it lands inside the range.
    """
    if size <= 1:
        return np.zeros_like(index)
    half = max(1, (int(size - 1).bit_length() + 1) // 2)
    low_mask = np.uint64((1 << half) - 1)
    keys = [derive_key(key, "feistel", i) for i in range(4)]

    def walk(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = x >> np.uint64(half), x & low_mask
        for round_key in keys:
            left, right = right, left ^ (random_bits(round_key, right) & low_mask)
        return (left << np.uint64(half)) | right

    result = walk(index.astype(np.uint64))
    outside = result >= size
    while outside.any():
        result[outside] = walk(result[outside])
        outside = result >= size
    return result.astype(np.int64)
