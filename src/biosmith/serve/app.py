"""The REST interface: what can be asked, and what is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import HTTPException, RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.staticfiles import StaticFiles

from biosmith.rejects import Rejects
from biosmith.serve import documents as convert
from biosmith.serve import schemas
from biosmith.serve.batching import Batcher, Busy, Failure, Result
from biosmith.serve.documents import TooMuch, Unreadable
from biosmith.serve.limits import Gate
from biosmith.serve.metrics import CONTENT_TYPE_LATEST, Metrics
from biosmith.serve.settings import Limits
from biosmith.text.document import Document
from biosmith.text.formats.jsonl import NotADocument, from_json, to_json
from biosmith.version import __version__

# The page loads nothing from anywhere else, and no other page may frame it.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
PAGE = {
    "index.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Error, "description": description}
    for status, description in {
        400: "The request cannot be understood",
        401: "The token is missing or wrong",
        408: "The body came too slowly",
        413: "The body, or what is in it, is too large",
        415: "The body is of another media type",
        422: "The values are not what the interface takes",
        503: "Too much to do; try again after Retry-After seconds",
    }.items()
}
BATCH_DOCUMENTS = 64  # lines of a batch that are annotated before they are answered


def make_app(
    batcher: Batcher,
    models: Sequence[schemas.Model],
    *,
    limits: Limits | None = None,
    token: str | None = None,
    leaderboard: Path | None = None,
) -> FastAPI:
    """The application; it closes the batcher when it ends.

    Args:
        batcher: annotates.
        models: what `/v1/models` says.
        limits: see `Limits`.
        token: see `limits.Gate`.
        leaderboard: folder of a static site, served at `/leaderboard/`.
    """
    limits = limits or Limits()
    metrics = Metrics(lambda: batcher.characters)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(batcher.close)

    app = FastAPI(
        title="biosmith",
        version=__version__,
        description="Finds named things, and relations between them, in biomedical text.",
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        responses=REFUSALS,
        dependencies=[Depends(HTTPBearer(auto_error=False, description="if the service has a token"))],
    )
    service = _Service(batcher, limits, metrics)
    _add_routes(app, service, models, leaderboard is not None)
    _add_page(app, leaderboard)
    _add_errors(app)
    app.add_middleware(Gate, limits=limits, token=token, metrics=metrics)
    return app


class _Service:
    """Annotates and counts."""

    def __init__(self, batcher: Batcher, limits: Limits, metrics: Metrics) -> None:
        self.batcher, self.limits, self.metrics = batcher, limits, metrics

    async def annotate(self, documents: Sequence[Document]) -> list[Result]:
        results = await self.batcher.annotate(documents)
        failed = sum(isinstance(result, Failure) for result in results)
        self.metrics.failed.inc(failed)
        self.metrics.documents.inc(len(results) - failed)
        self.metrics.mentions.inc(sum(len(r.mentions) for r in results if isinstance(r, Document)))
        return results

    async def answer(
        self, documents: Sequence[Document], places: Sequence[int | None], failed: list[schemas.Failed],
        format: str | None,
    ) -> Response:  # fmt: skip
        """Annotate, and answer as JSON or as a file."""
        results = await self.annotate(documents)
        done = [result for result in results if isinstance(result, Document)]
        failed = failed + [
            schemas.Failed(index=place, id=document.id, reason=result.reason)
            for place, document, result in zip(places, documents, results, strict=True)
            if isinstance(result, Failure)
        ]
        if format is not None:
            return await _file(done, format, len(failed))
        return await run_in_threadpool(_json_answer, done, failed)


def _json_answer(done: Sequence[Document], failed: Sequence[schemas.Failed]) -> Response:
    value = {"documents": convert.to_answer(done), "failed": [f.model_dump() for f in failed]}
    return Response(json.dumps(value), media_type="application/json")


async def _file(documents: Sequence[Document], format: str, failed: int = 0) -> Response:
    content, media, lost = await run_in_threadpool(convert.to_file, documents, format)
    headers = {
        "Content-Disposition": f'attachment; filename="annotated{convert.WRITTEN[format][0]}"',
        "X-Biosmith-Failed": str(failed),
        "X-Biosmith-Lost": json.dumps(lost),
    }
    return Response(content, media_type=media, headers=headers)


Format = Annotated[schemas.WriteFormat | None, Query(description="answer as a file of this format")]
AS_FILE: dict[str, Any] = {media: {} for _, media in convert.WRITTEN.values()}


def _add_routes(
    app: FastAPI, service: _Service, models: Sequence[schemas.Model], has_leaderboard: bool
) -> None:
    limits = service.limits

    @app.post(
        "/v1/annotate",
        response_model=schemas.AnnotateAnswer | schemas.BiocCollection,
        responses={200: {"content": AS_FILE}},
        tags=["annotate"],
    )
    async def annotate(request: schemas.AnnotateRequest, format: Format = None) -> Response:
        """Annotate one text or several documents."""
        documents, places, failed = await run_in_threadpool(convert.from_request, request, limits)
        return await service.answer(documents, places, failed, format)

    @app.post(
        "/v1/annotate/file", response_model=schemas.AnnotateAnswer | schemas.BiocCollection, responses={200: {"content": AS_FILE}},
        tags=["annotate"], openapi_extra=_body("application/octet-stream", {"type": "string", "format": "binary"}),
    )  # fmt: skip
    async def annotate_file(
        request: Request,
        source: Annotated[
            schemas.ReadFormat | None, Query(alias="from", description="found by content if not given")
        ] = None,
        name: Annotated[
            str, Query(max_length=255, description="the file's name; tables are known by its suffix")
        ] = "",
        format: Format = None,
    ) -> Response:
        """Annotate the content of a file, compressed (gzip, xz) or not, in any of the formats of `/v1/formats`."""
        if request.headers.get("content-type", "").startswith("multipart/"):
            raise HTTPException(
                415, "send the content of the file alone, not a form (curl --data-binary @FILE)"
            )
        content = await request.body()
        documents, failed = await run_in_threadpool(convert.from_content, content, source, limits, name)
        return await service.answer(documents, [None] * len(documents), failed, format)

    @app.post(
        "/v1/batch", tags=["annotate"], response_class=StreamingResponse,
        responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
        openapi_extra=_body("text/plain", {"type": "string", "description": "a JSON object a line"}),
    )  # fmt: skip
    async def batch(request: Request) -> StreamingResponse:
        """Annotate documents given one a line as JSON; each line of the answer is the line's document, or its `error`."""
        lines = [line for line in (await request.body()).split(b"\n") if line.strip()]
        if len(lines) > limits.documents:
            raise TooMuch(f"more than {limits.documents:,} documents in one request")
        if not lines:
            raise Unreadable("the body has no line")
        return StreamingResponse(_batch(service, lines), media_type="application/x-ndjson")

    @app.post("/v1/convert", tags=["convert"], response_class=Response, responses={200: {"content": AS_FILE}})
    async def convert_documents(
        request: Annotated[schemas.ConvertRequest, Body()], format: Annotated[schemas.WriteFormat, Query()]
    ) -> Response:
        """Annotated documents as a file of another format."""
        return await _file(await run_in_threadpool(convert.from_answer, request, limits), format)

    @app.get("/v1/models", tags=["about"])
    async def list_models() -> schemas.Models:
        """The models that read every document."""
        return schemas.Models(models=list(models), version=__version__)

    @app.get("/v1/formats", tags=["about"])
    async def list_formats() -> schemas.Formats:
        """The formats that are read and written."""
        return schemas.Formats(read=list(convert.READ), write=list(convert.WRITTEN))

    @app.get("/v1/limits", tags=["about"])
    async def list_limits() -> dict[str, float | bool]:
        """What one request may hold, and whether there is a leaderboard."""
        return {**vars(limits), "leaderboard": has_leaderboard}

    @app.get("/health", tags=["about"])
    async def health() -> schemas.Health:
        """Whether the service works, and how much waits."""
        if not service.batcher.alive:
            raise HTTPException(503, "the engine has stopped")
        return schemas.Health(
            status="ok",
            waiting_characters=service.batcher.characters,
            requests=service.batcher.requests,
            documents=service.batcher.nlp.counts.documents,
        )

    @app.get(
        "/metrics", tags=["about"], response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )  # fmt: skip
    async def metrics() -> Response:
        """Counters, as Prometheus reads them."""
        return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _body(media: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media: {"schema": schema}}}}


async def _batch(service: _Service, lines: Sequence[bytes]) -> AsyncIterator[bytes]:
    """A line for each line, some at a time."""
    for start in range(0, len(lines), BATCH_DOCUMENTS):
        chunk = lines[start : start + BATCH_DOCUMENTS]
        given = [_parse(line, start + i, service.limits) for i, line in enumerate(chunk)]
        ids, parsed = [id for id, _ in given], [item for _, item in given]
        documents = [item for item in parsed if isinstance(item, Document)]
        try:
            results: list[Result] = await service.annotate(documents)
        except Busy:
            results = [Failure("the service is busy; send this one again")] * len(documents)
        annotated = iter(results)
        answered = []
        for id, item in zip(ids, parsed, strict=True):
            result = next(annotated) if isinstance(item, Document) else item
            if isinstance(result, Document):
                value = to_json(result)
            else:
                value = {"id": id, "error": result.reason}
            answered.append(json.dumps(value).encode() + b"\n")
        yield b"".join(answered)


def _parse(line: bytes, index: int, limits: Limits) -> tuple[str, Document | Failure]:
    """The id of a line (its number, where it has none that can be used) and its document, or why it is none."""
    number = str(index + 1)
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return number, Failure(f"line {number} is not JSON: {error}")
    if isinstance(value, dict) and value.get("id") is None:
        value["id"] = number
    id = value.get("id") if isinstance(value, dict) else None
    named = str(id) if isinstance(id, str | int) else number
    try:
        document = from_json(value, Rejects(keep=0), "the request", f"line {number}")
    except (NotADocument, ValueError, RecursionError) as error:
        return named, Failure(f"line {number} {error}")
    if len(document.text) > limits.characters:
        return document.id, Failure(f"line {number} has more than {limits.characters:,} characters")
    return document.id, document


def _add_page(app: FastAPI, leaderboard: Path | None) -> None:
    folder = resources.files("biosmith.serve") / "page"
    for name, media in PAGE.items():
        content = (folder / name).read_bytes()
        path = "/" if name == "index.html" else f"/{name}"
        app.add_api_route(path, _static(content, media), include_in_schema=False, methods=["GET", "HEAD"])
    if leaderboard is not None:
        app.mount("/leaderboard", StaticFiles(directory=leaderboard, html=True), name="leaderboard")


def _static(content: bytes, media: str) -> Any:
    async def page() -> Response:
        headers = {
            "Content-Security-Policy": PAGE_POLICY,
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
        }
        return Response(content, media_type=media, headers=headers)

    return page


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_json = media == "application/json" or media.endswith("+json")
        if not is_json and any(e["type"] == "model_attributes_type" for e in error.errors()):
            return JSONResponse(
                {"detail": "JSON is expected; send it as Content-Type: application/json"}, 415
            )
        # The offending input is left out: it may be huge, and it may be what no encoder takes.
        found = [{key: e[key] for key in ("loc", "msg", "type")} for e in error.errors()[:20]]
        return JSONResponse({"detail": json.loads(json.dumps(found, default=str))}, 422)

    @app.exception_handler(TooMuch)
    async def too_much(_: Request, error: TooMuch) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 413)

    @app.exception_handler(Unreadable)
    async def unreadable(_: Request, error: Unreadable) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> JSONResponse:
        return JSONResponse({"detail": "too much waits already"}, 503, headers={"Retry-After": "2"})
