"""Many requests, one engine: documents of whoever waits are annotated together, in turns, on one thread."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from biosmith.annotate.annotator import Annotator
from biosmith.rejects import Rejects
from biosmith.serve.memory import give_back
from biosmith.text.document import Document

# One call of the engine: enough to fill batches, little enough that nobody waits long for their turn.
MOST_DOCUMENTS, MOST_CHARACTERS = 64, 100_000
BATCHES_A_TRIM = 100  # after so many, memory that is free again goes back to the system
TURN = 8  # documents of one request before it is the next one's turn

log = logging.getLogger("biosmith")


class Busy(Exception):
    """More waits already than will be taken in."""


@dataclass(frozen=True)
class Failure:
    """A document that could not be annotated."""

    reason: str


Result = Document | Failure


@dataclass(eq=False)
class _Request:
    """Documents of one client: those that wait, and what became of the others."""

    results: list[Result | None]
    waiting: deque[tuple[int, Document]]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[list[Result]]
    left: int
    abandoned: bool = field(default=False)


class Batcher:
    """Annotates documents for many clients at once; a request's documents come back in its order.

    Requests take turns, a few documents each, so that a long one does not keep short ones waiting.

    Args:
        nlp: the annotator; only the thread of this object uses it.
        waiting_characters: documents that may wait, together.
    """

    def __init__(self, nlp: Annotator, waiting_characters: int) -> None:
        self.nlp, self.waiting_characters = nlp, waiting_characters
        self._requests: deque[_Request] = deque()
        self._characters = 0
        self._changed = threading.Condition()
        self._closed = False
        self._names = itertools.count()
        self._thread = threading.Thread(target=self._work, name="annotates", daemon=True)
        self._thread.start()

    @property
    def characters(self) -> int:
        """Waiting or being annotated, over all requests."""
        return self._characters

    @property
    def requests(self) -> int:
        """With documents that wait."""
        return len(self._requests)

    @property
    def alive(self) -> bool:
        """Whether the thread that annotates runs."""
        return self._thread.is_alive() and not self._closed

    async def annotate(self, documents: Sequence[Document]) -> list[Result]:
        """Each document annotated, or why it could not be; when the caller is cancelled, what waits is dropped.

        Raises:
            Busy: too much waits already.
        """
        if not documents:
            return []
        loop = asyncio.get_running_loop()
        size = sum(len(document.text) for document in documents)
        request = _Request(
            [None] * len(documents), deque(enumerate(documents)), loop, loop.create_future(), len(documents)
        )
        with self._changed:
            # One request alone is always taken, whatever its size: the limits of a request are for others to check.
            if self._closed or (self._characters and self._characters + size > self.waiting_characters):
                raise Busy
            self._characters += size
            self._requests.append(request)
            self._changed.notify()
        try:
            return await request.future
        finally:
            request.abandoned = True

    def close(self) -> None:
        """Stop when the batch under way is done; what waits is given up."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout=30)

    def _work(self) -> None:
        batches = 0
        while True:
            with self._changed:
                while not self._requests and not self._closed:
                    self._changed.wait()
                if self._closed:
                    waiting, self._requests = list(self._requests), deque()
                    break
                batch = self._take()
            if batch:
                self._annotate(batch)
                batches += 1
                if batches % BATCHES_A_TRIM == 0:
                    give_back()
        for request in waiting:
            _hand_back(request, [Failure("the service is shutting down")] * len(request.results))

    def _take(self) -> list[tuple[_Request, int, Document]]:
        """The next documents, some of each request in turn."""
        batch: list[tuple[_Request, int, Document]] = []
        characters = taken = 0
        while self._requests and len(batch) < MOST_DOCUMENTS:
            request = self._requests[0]
            if request.abandoned:
                self._requests.popleft()
                taken = 0
                self._characters -= sum(len(document.text) for _, document in request.waiting)
                continue
            index, document = request.waiting[0]
            if batch and characters + len(document.text) > MOST_CHARACTERS:
                break
            request.waiting.popleft()
            batch.append((request, index, document))
            characters += len(document.text)
            taken += 1
            if not request.waiting:
                self._requests.popleft()
                taken = 0
            elif taken == TURN:
                self._requests.rotate(-1)
                taken = 0
        return batch

    def _annotate(self, batch: Sequence[tuple[_Request, int, Document]]) -> None:
        # Clients choose ids as they like; here every document has one of its own.
        named = {f"request-{next(self._names)}": (request, i, document) for request, i, document in batch}
        rejects = Rejects(keep=len(batch))
        done: dict[str, Document] = {}
        reason = "the engine gave nothing back"
        try:
            documents = [replace(document, id=name) for name, (_, _, document) in named.items()]
            done = {d.id: d for d in self.nlp.annotate_chunk(documents, rejects)}
        except Exception as error:
            log.exception("a batch of %d documents could not be annotated", len(batch))
            reason = f"{type(error).__name__}: {error}"
        with self._changed:
            self._characters -= sum(len(document.text) for _, _, document in batch)
        reasons = {item["record"]: item["reason"] for item in rejects.items}
        for name, (request, index, document) in named.items():
            annotated = done.get(name)
            if annotated is None:
                request.results[index] = Failure(reasons.get(name, reason).replace(name, repr(document.id)))
            else:
                request.results[index] = replace(annotated, id=document.id)
            request.left -= 1
            if not request.left:
                _hand_back(request, [r for r in request.results if r is not None])


def _hand_back(request: _Request, results: list[Result]) -> None:
    def settle() -> None:
        if not request.future.done():
            request.future.set_result(results)

    if not request.loop.is_closed():
        request.loop.call_soon_threadsafe(settle)
