"""Models and limits to a running service."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from biosmith.annotate import load
from biosmith.annotate.tuned import name_of
from biosmith.errors import BiosmithError, UsageError
from biosmith.progress import say
from biosmith.serve.app import make_app
from biosmith.serve.batching import Batcher
from biosmith.serve.memory import keep_few_pools
from biosmith.serve.models import describe, require_safe
from biosmith.serve.protocol import with_deadline
from biosmith.serve.settings import Limits


@dataclass(frozen=True)
class Service:
    """A service that listens already and answers when `run` is called."""

    server: uvicorn.Server
    listening: socket.socket
    batcher: Batcher

    @property
    def url(self) -> str:
        """Where it is found."""
        host, port = self.listening.getsockname()[:2]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def run(self) -> None:
        """Answer until the process is told to end (Ctrl-C, SIGTERM) or `server.should_exit` is set."""
        with self._end_in_peace():
            self.server.run(sockets=[self.listening])

    @contextlib.contextmanager
    def _end_in_peace(self) -> Iterator[None]:
        """uvicorn raises the signal that ended it once more when it is done, which would end the process too: what
        follows `run`, the report and the clearing up, would never be."""
        if threading.current_thread() is not threading.main_thread():  # no other one gets signals
            yield
            return

        def end(*_: object) -> None:
            self.server.should_exit = True

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def open_service(
    models: Sequence[str | os.PathLike[str]],
    *,
    leaderboard: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    engine: str = "auto",
    device: str = "auto",
    link: Path | None = None,
    limits: Limits | None = None,
) -> Service:
    """Load the models and begin to listen.

    Args:
        models: folders of tuned models, their weights in safetensors.
        leaderboard: folder of a static site to show beside the page.
        host, port: where to listen; port 0 takes a free one.
        token: that requests must bear.
        engine, device, link: as of `biosmith.load`.
        limits: what one request may hold, and how much is done at once.

    Raises:
        UsageError: a model is missing or not safe to load, or the leaderboard is no site.
        BiosmithError: the address cannot be listened on.
    """
    limits = limits or Limits()
    folders = [Path(model) for model in models]
    for folder in folders:
        require_safe(folder)
    if leaderboard is not None and not (leaderboard / "index.html").is_file():
        raise UsageError(f"{leaderboard} has no index.html; make the site with biosmith bench leaderboard")
    if token is not None and (not token or not token.isascii() or not token.isprintable()):
        raise UsageError("the token must be of printable ASCII characters")
    keep_few_pools()
    listening = _listen(host, port)
    try:
        batcher = Batcher(load(folders, engine=engine, device=device, link=link), limits.waiting_characters)
    except BaseException:
        listening.close()
        raise
    app = make_app(batcher, describe(folders), limits=limits, token=token, leaderboard=leaderboard)
    config = uvicorn.Config(
        app,
        http=with_deadline(limits.header_seconds),
        ws="none",
        limit_concurrency=limits.connections,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=32 * 1024,
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    return Service(uvicorn.Server(config), listening, batcher)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:  # the system would take the rest of the division
        raise UsageError(f"port {port} is none; valid: 1 to 65535, 0 for a free one")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error}") from error
    try:
        if os.name != "nt":  # there it would let two services share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise BiosmithError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listening


def serve(models: Sequence[str | os.PathLike[str]], **options: Any) -> int:
    """Serve until the process is told to end; arguments and errors as of `open_service`.

    Returns:
        How many documents were annotated.
    """
    service = open_service(models, **options)
    names = ", ".join(name_of(Path(model)) for model in models)
    say(f"biosmith serves {names} at {service.url} (Ctrl-C ends it)")
    host = service.listening.getsockname()[0]
    if options.get("token") is None and not ipaddress.ip_address(host).is_loopback:
        say("Everybody who reaches this machine can use it; --token would ask for one")
    service.run()
    return service.batcher.nlp.counts.documents
