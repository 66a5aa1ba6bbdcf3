"""Models and limits to a running service."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from biosmith.annotate import load
from biosmith.errors import BiosmithError, UsageError
from biosmith.progress import say
from biosmith.serve.app import make_app
from biosmith.serve.batching import Batcher
from biosmith.serve.models import describe, require_safe
from biosmith.serve.protocol import with_deadline
from biosmith.serve.settings import Limits


def serve(
    models: Sequence[str | os.PathLike[str]],
    *,
    leaderboard: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    engine: str = "auto",
    device: str = "auto",
    limits: Limits | None = None,
) -> int:
    """Serve until the process is told to end (Ctrl-C, SIGTERM).

    Args:
        models: folders of tuned models, their weights in safetensors.
        leaderboard: folder of a static site to show beside the page.
        host, port: where to listen; port 0 takes a free one.
        token: that requests must bear.
        engine, device: as of `biosmith.load`.
        limits: what one request may hold, and how much is done at once.

    Returns:
        How many documents were annotated.

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
    batcher = Batcher(load(folders, engine=engine, device=device), limits.waiting_characters)
    app = make_app(batcher, describe(folders), limits=limits, token=token, leaderboard=leaderboard)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
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
    try:
        listening = config.bind_socket()
    except SystemExit as error:  # uvicorn logs the reason and leaves
        batcher.close()
        raise BiosmithError(f"cannot listen on {host}:{port}; is it in use?") from error
    address = listening.getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]
    say(
        f"biosmith serves {', '.join(f.resolve().name for f in folders)} at http://{shown}:{address[1]}/ (Ctrl-C ends it)"
    )
    if token is None and not ipaddress.ip_address(address[0]).is_loopback:
        say("Everybody who reaches this machine can use it; --token would ask for one")
    uvicorn.Server(config).run(sockets=[listening])
    return batcher.nlp.counts.documents
