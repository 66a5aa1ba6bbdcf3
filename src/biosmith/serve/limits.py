"""What stands before the application: token, size, time and number of requests. Bodies are read here, and only here."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from biosmith.serve.metrics import Metrics
from biosmith.serve.settings import Limits

OPEN_PATHS = ("/", "/page.css", "/page.js", "/icon.svg", "/health", "/openapi.json")
# How much of a body that is too large is read and thrown away, so that its client gets to read the answer.
DRAINED_BYTES, DRAINED_SECONDS = 256 * 2**20, 20.0

log = logging.getLogger("biosmith")


class Refused(Exception):
    """A request that will not be answered as it hoped."""

    def __init__(
        self, status: int, detail: str, *, retry_after: int | None = None, close: bool = False
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.retry_after, self.close = status, detail, retry_after, close


class Gate:
    """ASGI middleware; what comes through has its whole body, within the limits, and a deadline.

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        began = time.perf_counter()
        held = _Held()
        self.requests += 1
        self.metrics.under_way.inc()
        try:
            async with asyncio.timeout(self.limits.request_seconds):
                await self._let_in(scope, receive, answer, held)
        except Refused as refusal:
            await answer.refuse(refusal)
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
            given = headers.get(b"authorization", b"")
            if not secrets.compare_digest(given, b"Bearer " + self.token):
                await _drain(receive)
                raise Refused(401, "this service needs a token: Authorization: Bearer TOKEN")
        if self.requests > self.limits.requests and scope["path"] != "/health":
            await _drain(receive)
            raise Refused(503, "too many requests at once", retry_after=1)
        body = await self._read_body(headers, receive, held)
        await self.app(scope, _replay(body, receive), answer)

    async def _read_body(self, headers: dict[bytes, bytes], receive: Receive, held: _Held) -> bytes:
        announced = headers.get(b"content-length", b"0")
        size = int(announced) if announced.isdigit() else 0
        if size > self.limits.body_bytes:
            await _drain(receive)
            raise self._too_large(size)
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the client went away", close=True)
                    part = message.get("body", b"")
                    more = message.get("more_body", False)
                    held.bytes += len(part)
                    self.body_bytes += len(part)
                    parts.append(part)
                    if held.bytes > self.limits.body_bytes:
                        parts.clear()
                        await _drain(receive)
                        raise self._too_large(held.bytes)
                    if self.body_bytes > self.limits.waiting_bytes and held.bytes != self.body_bytes:
                        raise Refused(503, "too much to do at the moment", retry_after=1, close=more)
        except TimeoutError as error:
            raise Refused(
                408, f"the body did not come within {self.limits.body_seconds:g} s", close=True
            ) from error
        return b"".join(parts)

    def _too_large(self, size: int) -> Refused:
        return Refused(
            413, f"the body has more than {self.limits.body_bytes:,} bytes ({size:,} so far)", close=True
        )


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


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the whole body at once, and after it what the client does."""
    given = False

    async def replayed() -> dict[str, Any]:
        nonlocal given
        if given:
            return dict(await receive())
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
