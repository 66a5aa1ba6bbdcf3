"""What stands before the application: token, size, time and number of requests. Bodies are read here, and only here."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Awaitable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from biosmith.serve import compression
from biosmith.serve.metrics import Metrics
from biosmith.serve.settings import Limits

OPEN_PATHS = ("/", "/page.css", "/page.js", "/icon.svg", "/health", "/openapi.json")
# How much of a body that is too large is read and thrown away, so that its client gets to read the answer.
DRAINED_BYTES, DRAINED_SECONDS = 256 * 2**20, 20.0
# Content-Encoding -> whether it is gzip.
ENCODINGS = {b"": False, b"identity": False, b"gzip": True, b"x-gzip": True}
CLIENT_WENT_AWAY = 499  # nginx's status for its log; nobody is there to read it

log = logging.getLogger("biosmith")


class Refused(Exception):
    """A request that will not be answered as it hoped; its body is thrown away before it is told where `drain` says."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        retry_after: int | None = None,
        close: bool = False,
        drain: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.retry_after = status, detail, retry_after
        self.close, self.drain = close, drain


class Gone(Exception):
    """The client went away."""


class Gate:
    """ASGI middleware; what comes through has its whole body, unpacked and within the limits, and a deadline.

    Work for a client that goes away is given up.

    Args:
        app: the application.
        limits: see `Limits`.
        token: that every request but those of `OPEN_PATHS` must bear; None lets everybody in.
        metrics: counts the answers.
    """

    def __init__(self, app: ASGIApp, limits: Limits, token: str | None, metrics: Metrics) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.token = None if token is None else token.encode()
        self.requests = self.body_bytes = 0
        self._unpacking = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # as GET; the server leaves the body out
            scope = {**scope, "method": "GET"}
        answer = _Answer(send)
        began = time.perf_counter()
        held = _Held()
        self.requests += 1
        self.metrics.under_way.inc()
        try:
            async with asyncio.timeout(self.limits.request_seconds):
                await self._let_in(scope, receive, answer, held)
        except Refused as refusal:
            if refusal.drain:
                await _drain(receive)
            await answer.refuse(refusal)
        except Gone:
            if not answer.complete:
                answer.status = CLIENT_WENT_AWAY
        except TimeoutError:
            await answer.refuse(
                Refused(503, "this took too long; send less at once", retry_after=5, close=True)
            )
        except Exception:
            log.exception("a request to %s failed", scope["path"])
            await answer.refuse(Refused(500, "an error of the service, which its log describes"))
        finally:
            self.requests -= 1
            self.body_bytes -= held.bytes
            self.metrics.under_way.dec()
            path = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(path, str(answer.status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - began)

    async def _let_in(self, scope: Scope, receive: Receive, answer: _Answer, held: _Held) -> None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        is_open = scope["path"] in OPEN_PATHS or scope["path"].startswith("/leaderboard")
        if self.token is not None and not is_open:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not secrets.compare_digest(given.strip(), self.token):
                raise Refused(401, "this service needs a token: Authorization: Bearer TOKEN", drain=True)
        if self.requests > self.limits.requests and scope["path"] != "/health":
            raise Refused(503, "too many requests at once", retry_after=1, drain=True)
        encoding = headers.get(b"content-encoding", b"").strip().lower()
        if encoding not in ENCODINGS:
            what = f"bodies are taken as they are or in gzip, not in Content-Encoding {encoding.decode('latin-1')!r}"
            raise Refused(415, what, drain=True)
        body = await self._read_body(headers, receive, held)
        if body and ENCODINGS[encoding] and not body.startswith(compression.GZIP):
            raise Refused(400, f"the body is not what its Content-Encoding says ({encoding.decode()})")
        for _ in range(1 + ENCODINGS[encoding]):  # a compressed file may be sent in the encoding too
            if compression.is_compressed(body):
                body = await self._unpack(body, held)
        gone = asyncio.create_task(_disconnected(receive))
        await _unless(gone, self.app(scope, _replay(body, gone), answer))

    async def _read_body(self, headers: dict[bytes, bytes], receive: Receive, held: _Held) -> bytes:
        announced = headers.get(b"content-length", b"0")
        size = int(announced) if announced.isdigit() else 0
        if size > self.limits.body_bytes:
            raise self._too_large(size)
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    part = message.get("body", b"")
                    more = message.get("more_body", False)
                    held.bytes += len(part)
                    self.body_bytes += len(part)
                    parts.append(part)
                    if held.bytes > self.limits.body_bytes:
                        raise self._too_large(held.bytes)
                    if self.body_bytes > self.limits.waiting_bytes and held.bytes != self.body_bytes:
                        raise Refused(503, "too much to do at the moment", retry_after=1, close=more)
        except TimeoutError as error:
            raise Refused(
                408, f"the body did not come within {self.limits.body_seconds:g} s", close=True
            ) from error
        return b"".join(parts)

    async def _unpack(self, body: bytes, held: _Held) -> bytes:
        # One at a time, so that small bodies do not become many large ones before these are counted.
        async with self._unpacking:
            try:
                body = await run_in_threadpool(compression.unpack, body, self.limits.body_bytes)
            except compression.TooLarge as error:
                raise Refused(413, str(error)) from error
            except compression.Damaged as error:
                raise Refused(400, f"the body cannot be unpacked: {error}") from error
            held.bytes += len(body)
            self.body_bytes += len(body)
            if self.body_bytes > self.limits.waiting_bytes and held.bytes != self.body_bytes:
                raise Refused(503, "too much to do at the moment", retry_after=1)
            return body

    def _too_large(self, size: int) -> Refused:
        detail = f"the body has more than {self.limits.body_bytes:,} bytes ({size:,} so far)"
        return Refused(413, detail, close=True, drain=True)


class _Held:
    """What a request's body takes."""

    bytes = 0


class _Answer:
    """Passes an answer on and remembers how far it got."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.complete = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", []), (b"x-content-type-options", b"nosniff")]
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
        await self._send(message)

    async def refuse(self, refusal: Refused) -> None:
        """Answer with the refusal, or break off what was begun so that nobody takes it for whole."""
        if self.status:
            if not self.complete:
                raise refusal
            return
        body = json.dumps({"detail": refusal.detail}).encode()
        headers: list[tuple[bytes, bytes]] = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        if refusal.retry_after is not None:
            headers.append((b"retry-after", str(refusal.retry_after).encode()))
        if refusal.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if refusal.close:
            headers.append((b"connection", b"close"))
        await self({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


async def _disconnected(receive: Receive) -> None:
    """Ends when the client goes away, or has its answer."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _unless(gone: asyncio.Task[None], work: Awaitable[None]) -> None:
    """Do the work, or break it off when the client is gone.

    Raises:
        Gone: before the work was done.
    """
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Gone
        await working
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


def _replay(body: bytes, gone: asyncio.Task[None]) -> Receive:
    """A `receive` that gives the whole body at once, and after it that the client is gone."""
    given = False

    async def replayed() -> dict[str, Any]:
        nonlocal given
        if given:
            await asyncio.wait((gone,))
            return {"type": "http.disconnect"}
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


async def _drain(receive: Receive) -> None:
    """Throw a body away as it comes, up to a point."""
    drained = 0
    try:
        async with asyncio.timeout(DRAINED_SECONDS):
            while drained < DRAINED_BYTES:
                message = await receive()
                drained += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return
