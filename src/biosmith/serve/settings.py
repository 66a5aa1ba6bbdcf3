"""The limits of a service: what it takes at most, and how long."""

from __future__ import annotations

import math
from dataclasses import dataclass

from biosmith.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """What a service takes before it says that it is too much (413) or that it is busy (503).

    Attributes:
        body_bytes: of one request.
        documents: in one request.
        characters: in one request, all documents together.
        request_seconds: from the headers to the last byte of the answer.
        header_seconds: for a client to send its headers.
        body_seconds: for a client to send its body.
        connections: open at the same time.
        requests: taken in at the same time, waiting ones included.
        waiting_bytes: bodies of requests that are being worked on, together.
        waiting_characters: documents that wait for the engine, together.

    Raises:
        UsageError: one of them is not above nought, or no finite number: nothing would be let in, or everything.
    """

    body_bytes: int = 8 * 2**20
    documents: int = 1000
    characters: int = 2_000_000
    request_seconds: float = 60.0
    header_seconds: float = 10.0
    body_seconds: float = 20.0
    connections: int = 1000
    requests: int = 500
    waiting_bytes: int = 64 * 2**20
    waiting_characters: int = 20_000_000

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                raise UsageError(f"the limit {name} is {value}; it must be a number above 0")
