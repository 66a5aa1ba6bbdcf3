"""The limits of a service: what it takes at most, and how long."""

from __future__ import annotations

from dataclasses import dataclass


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
