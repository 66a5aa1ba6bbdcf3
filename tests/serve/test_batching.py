"""Many clients, one engine: everybody gets their own documents back, in turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest

from biosmith.annotate.annotator import Counts
from biosmith.rejects import Rejects
from biosmith.serve.batching import MOST_CHARACTERS, MOST_DOCUMENTS, Batcher, Busy, Failure
from biosmith.text.document import Document, Mention


class Engine:
    """Finds the whole text of a document; notes down what it was given together; may be held."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.given: list[list[str]] = []
        self.go = threading.Event()
        self.go.set()
        self.begun = threading.Event()

    def annotate_chunk(self, documents: Sequence[Document], rejects: Rejects) -> list[Document]:
        self.begun.set()
        assert self.go.wait(20)
        self.given.append([d.text for d in documents])
        assert len({d.id for d in documents}) == len(documents)
        if any(d.text == "broken engine" for d in documents):
            raise MemoryError
        done = []
        for d in documents:
            if d.text.startswith("poison"):
                rejects.add("annotate", d.id, f"document {d.id} is poisonous")
            else:
                done.append(Document(d.id, d.text, mentions=(Mention(0, len(d.text), d.text),)))
        return done


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def batcher(engine: Engine) -> Iterator[Batcher]:
    opened = Batcher(engine, 1_000_000)  # type: ignore[arg-type]
    yield opened
    engine.go.set()
    opened.close()


def documents(*texts: str) -> list[Document]:
    return [Document("same", text) for text in texts]


def test_everybody_gets_their_own_documents_back(batcher: Batcher) -> None:
    async def client(number: int) -> None:
        texts = [f"{number}-{i}" for i in range(number % 7 + 1)]
        for _ in range(3):
            results = await batcher.annotate(documents(*texts))
            assert [r.text for r in results] == texts  # type: ignore[union-attr]
            assert [r.mentions[0].text for r in results] == texts  # type: ignore[union-attr]
            assert {r.id for r in results} == {"same"}  # type: ignore[union-attr]

    async def everybody() -> None:
        await asyncio.gather(*(client(i) for i in range(100)))

    asyncio.run(everybody())
    assert batcher.characters == batcher.requests == 0


def test_what_waits_is_annotated_together_and_in_turns(batcher: Batcher, engine: Engine) -> None:
    engine.go.clear()

    async def run() -> None:
        first = asyncio.create_task(batcher.annotate(documents("first")))
        await asyncio.to_thread(engine.begun.wait)
        long = asyncio.create_task(batcher.annotate(documents(*["long"] * 500)))
        await asyncio.sleep(0.05)
        short = [asyncio.create_task(batcher.annotate(documents("short"))) for _ in range(10)]
        await asyncio.sleep(0.05)
        engine.go.set()
        await asyncio.gather(first, long, *short)

    asyncio.run(run())
    assert engine.given[0] == ["first"]
    # All short requests are in the first batch, although the long one came before them.
    assert engine.given[1].count("short") == 10 and len(engine.given[1]) == MOST_DOCUMENTS


def test_a_batch_is_bounded_in_text_but_takes_one_document_of_any_size(
    batcher: Batcher, engine: Engine
) -> None:
    huge = "x" * (MOST_CHARACTERS + 1)
    results = asyncio.run(batcher.annotate(documents(huge, "a", huge, "b")))
    assert [len(r.text) for r in results] == [len(huge), 1, len(huge), 1]  # type: ignore[union-attr]
    assert all(sum(map(len, texts)) <= MOST_CHARACTERS or len(texts) == 1 for texts in engine.given)


def test_failures_are_told_of_the_document_they_are_of(batcher: Batcher) -> None:
    first, second, third = asyncio.run(batcher.annotate(documents("a", "poison", "b")))
    assert isinstance(first, Document) and isinstance(third, Document)
    assert second == Failure("document 'same' is poisonous")


def test_an_engine_that_breaks_altogether_fails_the_batch_and_goes_on(batcher: Batcher) -> None:
    (result,) = asyncio.run(batcher.annotate(documents("broken engine")))
    assert isinstance(result, Failure) and result.reason.startswith("MemoryError")
    assert isinstance(asyncio.run(batcher.annotate(documents("a")))[0], Document)
    assert batcher.alive


def test_too_much_at_once_is_refused_and_what_was_taken_is_done(engine: Engine) -> None:
    batcher = Batcher(engine, 100)  # type: ignore[arg-type]
    engine.go.clear()

    async def run() -> None:
        taken = asyncio.create_task(batcher.annotate(documents("x" * 90)))
        await asyncio.sleep(0.05)
        with pytest.raises(Busy):
            await batcher.annotate(documents("y" * 11))
        engine.go.set()
        assert isinstance((await taken)[0], Document)
        await batcher.annotate(documents("y" * 500))  # alone, anything is taken

    asyncio.run(run())
    batcher.close()


def test_what_a_client_that_went_away_was_waiting_for_is_dropped(batcher: Batcher, engine: Engine) -> None:
    engine.go.clear()

    async def run() -> None:
        first = asyncio.create_task(batcher.annotate(documents("first")))
        await asyncio.to_thread(engine.begun.wait)
        gone = asyncio.create_task(batcher.annotate(documents(*["gone"] * 1000)))
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.sleep(0.05)
        engine.go.set()
        await first
        await batcher.annotate(documents("last"))

    asyncio.run(run())
    assert engine.given == [["first"], ["last"]] and batcher.characters == 0


def test_closing_fails_what_waits_instead_of_leaving_it_waiting(batcher: Batcher, engine: Engine) -> None:
    engine.go.clear()

    async def run() -> None:
        first = asyncio.create_task(batcher.annotate(documents("first")))
        await asyncio.to_thread(engine.begun.wait)
        second = asyncio.create_task(batcher.annotate(documents("second")))
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(asyncio.to_thread(batcher.close))
        await asyncio.sleep(0.05)
        engine.go.set()
        await closing
        assert isinstance((await first)[0], Document)
        assert await second == [Failure("the service is shutting down")]
        with pytest.raises(Busy):
            await batcher.annotate(documents("third"))

    asyncio.run(run())
