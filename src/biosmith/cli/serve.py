"""`biosmith serve`."""

from __future__ import annotations

from pathlib import Path

from biosmith.cli import Report
from biosmith.errors import UsageError


def serve(
    *,
    model: tuple[Path, ...] = (),
    results: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    token_file: Path | None = None,
    engine: str = "auto",
    device: str = "auto",
    link: Path | None = None,
    body_mb: float = 8.0,
    documents: int = 1000,
    seconds: float = 60.0,
    requests: int = 500,
) -> Report:
    """Annotate over HTTP: a REST interface, described at /openapi.json, and a page at /.

    Requests are answered up to the limits; beyond them they are refused (413, 503 with Retry-After), and the service
    goes on. Models are loaded from safetensors only, and no request can name a file of this machine.

    Example:
        biosmith serve --port 8000

    Example:
        biosmith serve --model ner-disease ner-chemical

    Args:
        model: tuned models; each adds its mentions. Without any, the tagger of diseases, chemicals and genes that comes
            with biosmith's sources.
        results: results of benchmarks, or the site made of them by `bench leaderboard`, to show beside the page.
        host: address to listen on; 0.0.0.0 is everywhere.
        port: 0 takes a free one.
        token: that requests must bear (Authorization: Bearer TOKEN); other users of this machine may see it here.
        token_file: a file that holds the token.
        engine: what runs the models; auto picks by what the machine has.
        device: auto, cpu, cuda, ...
        link: a TSV or OBO file whose identifiers mentions get, as of annotate.
        body_mb: megabytes that one request may have, also when it is unpacked.
        documents: that one request may hold.
        seconds: that one request may take.
        requests: taken in at once; more are told to come again.
    """
    try:
        from biosmith.serve.server import serve as run
    except ImportError as error:
        raise UsageError(f"serve needs {error.name}; install biosmith[serve]") from error
    from biosmith.annotate.released import default_tagger
    from biosmith.serve.leaderboard import leaderboard_site
    from biosmith.serve.settings import Limits

    if token is not None and token_file is not None:
        raise UsageError("--token and --token-file exclude each other")
    if token_file is not None:
        if not token_file.is_file():
            raise UsageError(f"{token_file} does not exist")
        token = token_file.read_text(encoding="utf-8", errors="replace").strip()
    if not 0 < body_mb < 2**20:
        raise UsageError(f"--body-mb is {body_mb}; it must be a number above 0")
    limits = Limits(
        body_bytes=round(body_mb * 2**20), documents=documents, request_seconds=seconds, requests=requests
    )
    with leaderboard_site(results) as site:
        done = run(
            model or (default_tagger(),),
            leaderboard=site,
            host=host,
            port=port,
            token=token,
            engine=engine,
            device=device,
            link=link,
            limits=limits,
        )
    return Report({"documents": done}, f"{done:,} documents annotated")
