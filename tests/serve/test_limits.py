"""Too large, too slow, too many, without a token: refused cleanly, and the service goes on."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import signal
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from biosmith.serve.server import Service, open_service
from biosmith.serve.settings import Limits

SMALL = Limits(
    body_bytes=20_000,
    documents=10,
    characters=10_000,
    header_seconds=0.5,
    body_seconds=0.5,
    request_seconds=3,
)


@pytest.fixture(scope="module")
def small(start: Any) -> Iterator[httpx.Client]:
    with start(limits=SMALL) as opened:
        yield opened


def connect(client: httpx.Client) -> socket.socket:
    assert client.base_url.port is not None
    return socket.create_connection((client.base_url.host, client.base_url.port), timeout=20)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def is_well(client: httpx.Client) -> bool:
    answer = client.post("/v1/annotate", json={"text": "Gout is rare."})
    return answer.status_code == 200 and len(answer.json()["documents"][0]["mentions"]) == 1


def test_a_body_of_100_mb_is_refused_and_its_client_reads_why(small: httpx.Client) -> None:
    answer = small.post("/v1/annotate", content=b"x" * 100_000_000)
    assert answer.status_code == 413 and "20,000 bytes" in answer.json()["detail"]
    assert is_well(small)


def test_a_body_that_does_not_say_how_long_it_is_is_refused_too(small: httpx.Client) -> None:
    answer = small.post("/v1/annotate", content=(b"x" * 65536 for _ in range(300)))
    assert answer.status_code == 413
    assert is_well(small)


@pytest.mark.parametrize(
    "request_",
    [{"documents": [{"text": "a"}] * 11}, {"text": "a" * 10_001}, {"documents": [{"text": "a" * 6000}] * 2}],
)
def test_too_many_documents_or_too_much_text_is_refused(
    small: httpx.Client, request_: dict[str, Any]
) -> None:
    assert small.post("/v1/annotate", json=request_).status_code == 413
    assert small.post("/v1/annotate/file?from=plain", content="a" * 10_001).status_code == 413


def test_a_client_that_sends_its_headers_byte_by_byte_is_cut_off(small: httpx.Client) -> None:
    with connect(small) as slow:
        began = time.monotonic()
        with pytest.raises(OSError):  # reset, or a broken pipe
            for byte in b"POST /v1/annotate HTTP/1.1\r\n" + b"X: y\r\n" * 1000:
                slow.sendall(bytes([byte]))
                time.sleep(0.02)
        assert time.monotonic() - began < 10
    assert is_well(small)


def test_a_client_that_connects_and_says_nothing_is_cut_off(small: httpx.Client) -> None:
    with connect(small) as silent:
        assert read_all(silent) == b""


def test_the_clock_runs_for_every_request_of_a_connection(small: httpx.Client) -> None:
    with connect(small) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in slow.recv(65536)
        slow.sendall(b"GET /hea")
        began = time.monotonic()
        read_all(slow)
        assert time.monotonic() - began < 5


def test_a_body_that_comes_too_slowly_is_refused(small: httpx.Client) -> None:
    with connect(small) as slow:
        slow.sendall(b"POST /v1/annotate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        assert b"408 Request Timeout" in read_all(slow)
    assert is_well(small)


def test_what_is_no_http_is_refused(small: httpx.Client) -> None:
    with connect(small) as odd:
        odd.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n")
        assert b"400 Bad Request" in read_all(odd)
    assert is_well(small)


def test_only_who_has_the_token_is_answered(start: Any) -> None:
    with start(token="open sesame") as client:
        for headers in ({}, {"Authorization": "Bearer sesame"}, {"Authorization": "open sesame"}):
            answer = client.post("/v1/annotate", json={"text": "Gout."}, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert client.get("/metrics").status_code == client.get("/v1/models").status_code == 401
        assert client.get("/health").status_code == client.get("/").status_code == 200
        for scheme in ("Bearer", "bearer"):  # RFC 9110: without regard to case
            granted = {"Authorization": f"{scheme} open sesame"}
            assert client.post("/v1/annotate", json={"text": "Gout."}, headers=granted).status_code == 200


def test_compressed_bodies_are_read_by_their_encoding_or_their_first_bytes(small: httpx.Client) -> None:
    request = b'{"text": "Gout is rare."}'
    encoded = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    for headers, body in (
        (encoded, gzip.compress(request)),
        ({**encoded, "Content-Encoding": "X-GZIP"}, gzip.compress(request[:9]) + gzip.compress(request[9:])),
        ({**encoded, "Content-Encoding": "identity"}, request),
    ):
        answer = small.post("/v1/annotate", content=body, headers=headers)
        assert [m["text"] for m in answer.json()["documents"][0]["mentions"]] == ["Gout"]
    file = b"pmid\ttitle\n7\tGout is rare\n"
    blocks = gzip.compress(file[:11]) + gzip.compress(file[11:]) + bytes(512)  # as bgzip and tapes leave it
    for headers, body in (
        ({}, gzip.compress(file)),
        ({}, blocks),
        ({}, lzma.compress(file, preset=9)),
        ({}, lzma.compress(file[:11]) + lzma.compress(file[11:])),
        ({"Content-Encoding": "gzip"}, gzip.compress(gzip.compress(file))),
        ({"Content-Encoding": "gzip"}, gzip.compress(lzma.compress(file))),
    ):
        (document,) = small.post("/v1/annotate/file", content=body, headers=headers).json()["documents"]
        assert (document["id"], document["text"]) == ("7", "Gout is rare")
    batch = small.post("/v1/batch", content=gzip.compress(request + b"\n" + request))
    assert len(batch.text.splitlines()) == 2


def test_other_encodings_are_refused_by_their_name(small: httpx.Client) -> None:
    for encoding in ("br", "gzip, gzip", "deflate"):
        answer = small.post("/v1/annotate", content=b"abc", headers={"Content-Encoding": encoding})
        assert answer.status_code == 415 and f"Content-Encoding '{encoding}'" in answer.json()["detail"]


def test_what_is_not_compressed_as_it_says_is_refused(small: httpx.Client) -> None:
    packed, xz = gzip.compress(b"Gout is rare." * 9), lzma.compress(b"Gout is rare." * 9)
    bent = packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:]  # the checksum of another content
    for body in (packed[:-9], packed + b"more", bent, packed[:2], xz[:-9], xz[:8] + b"x" * 9):
        answer = small.post("/v1/annotate/file", content=body)
        assert answer.status_code == 400 and "unpacked" in answer.json()["detail"]
    answer = small.post("/v1/annotate/file", content=b"Gout.", headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 400
    assert is_well(small)


def test_the_limit_of_a_body_is_that_of_what_is_in_it(small: httpx.Client) -> None:
    line = b"Gout is rare.\n"  # the limit of 10,000 characters is another one
    fits, too_large = line + b" " * (20_000 - len(line)), line + b" " * (20_001 - len(line))
    for compress in (gzip.compress, lzma.compress):
        assert small.post("/v1/annotate/file?from=plain", content=compress(fits)).status_code == 200
        answer = small.post("/v1/annotate/file?from=plain", content=compress(too_large))
        assert answer.status_code == 413 and "20,000 bytes" in answer.json()["detail"]


def bombs() -> Iterator[tuple[str, bytes, dict[str, str]]]:
    """Small bodies that unpack to much, or that cost much."""
    zeros = zlib.compressobj(9, wbits=31)
    gigabyte = b"".join(zeros.compress(bytes(2**20)) for _ in range(1024)) + zeros.flush()
    yield "a gigabyte of zeros in gzip", gigabyte, {}
    yield "the same once more packed", gzip.compress(gigabyte), {"Content-Encoding": "gzip"}
    yield "100 MB in xz", lzma.compress(bytes(10**8)), {}
    yield "empty streams", gzip.compress(b"") * 5000, {}
    yield "a dictionary of 1.5 GiB", with_large_dictionary(lzma.compress(b"Gout")), {}


def with_large_dictionary(packed: bytes) -> bytes:
    """A stream of xz that asks for a dictionary of 1.5 GiB: byte 4 of its block's header (xz-file-format, 5.3.1)."""
    header = bytearray(packed[12:20])
    assert header[:4] == bytes([2, 0, 0x21, 1])  # 12 bytes, one filter: LZMA2 with a property of one byte
    header[4] = 37  # (2 | 1) << (37 // 2 + 11)
    return packed[:12] + header + zlib.crc32(header).to_bytes(4, "little") + packed[24:]


def test_bombs_are_refused_soon_and_take_little_memory(start: Any) -> None:
    with start(limits=Limits()) as client:
        for what, body, headers in bombs():
            began = time.monotonic()
            paths = ("/v1/annotate/file", "/v1/annotate", "/v1/batch")
            answers = [client.post(path, content=body, headers=headers) for path in paths]
            assert [a.status_code for a in answers] == [413] * 3, what
            assert time.monotonic() - began < 20, what
        bomb = gzip.compress(bytes(10**8))
        tracemalloc.start()
        try:
            client.post("/v1/annotate/file", content=bomb)
            assert tracemalloc.get_traced_memory()[1] < 20 * 2**20  # the limit is 8 MiB of content
        finally:
            tracemalloc.stop()
        assert is_well(client)


def test_unpacked_bodies_count_towards_what_waits(start: Any) -> None:
    engine = SlowEngine()
    body = gzip.compress(b"Gout is rare.\n" + b" " * 900_000)
    with (
        start(engine.hold, limits=Limits(waiting_bytes=2 * 10**6)) as client,
        ThreadPoolExecutor(6) as threads,
    ):
        sent = [threads.submit(client.post, "/v1/annotate/file", content=body) for _ in range(6)]
        while sum(future.done() for future in sent) < 4:
            time.sleep(0.01)
        engine.go.set()
        assert sorted(future.result().status_code for future in sent) == [200] * 2 + [503] * 4
        assert is_well(client)


class SlowEngine:
    """An engine that waits until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def hold(self, service: Service) -> None:
        annotate = service.batcher.nlp.annotate_chunk

        def held(*arguments: Any) -> Any:
            self.go.wait(30)
            return annotate(*arguments)

        service.batcher.nlp.annotate_chunk = held  # type: ignore[method-assign]


def test_more_than_can_be_done_is_told_to_come_again_and_the_rest_is_answered(start: Any) -> None:
    engine = SlowEngine()
    limits = Limits(waiting_characters=200)
    with start(engine.hold, limits=limits) as client, ThreadPoolExecutor(40) as threads:
        sent = [
            threads.submit(client.post, "/v1/annotate", json={"text": "Gout is rare."}) for _ in range(40)
        ]
        while sum(future.done() for future in sent) < 40 - 200 // 13:
            time.sleep(0.01)
        engine.go.set()
        answers = [future.result() for future in sent]
        statuses = [answer.status_code for answer in answers]
        assert statuses.count(200) == 200 // 13 and statuses.count(503) == 40 - 200 // 13
        assert all(int(a.headers["retry-after"]) > 0 for a in answers if a.status_code == 503)
        assert is_well(client)


def test_requests_beyond_their_number_are_told_to_come_again(start: Any) -> None:
    engine = SlowEngine()
    with start(engine.hold, limits=Limits(requests=5)) as client, ThreadPoolExecutor(12) as threads:
        sent = [threads.submit(client.post, "/v1/annotate", json={"text": "Gout."}) for _ in range(12)]
        while sum(future.done() for future in sent) < 7:
            time.sleep(0.01)
        assert client.get("/health").status_code == 200  # what watches the service must not be shut out
        engine.go.set()
        assert sorted(future.result().status_code for future in sent) == [200] * 5 + [503] * 7


@pytest.mark.parametrize("path", ["/v1/annotate", "/v1/batch"])
def test_what_a_client_waits_for_that_goes_away_is_not_done(start: Any, path: str) -> None:
    done: list[str] = []

    def note(service: Service) -> None:
        annotate = service.batcher.nlp.annotate_chunk

        def noted(documents: Any, rejects: Any) -> Any:
            time.sleep(0.1)
            done.extend(d.text for d in documents)
            return annotate(documents, rejects)

        service.batcher.nlp.annotate_chunk = noted  # type: ignore[method-assign]

    record = json.dumps({"text": "Gout is rare."})
    records = [record] * 900
    body = "\n".join(records) if path.endswith("batch") else f'{{"documents": [{", ".join(records)}]}}'
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with start(note) as client:
        with connect(client) as leaving:
            leaving.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            while not done:
                time.sleep(0.01)
        while client.get("/health").json()["waiting_characters"]:
            time.sleep(0.01)
        assert len(done) < 500
        counted = client.get("/metrics").text
        assert f'biosmith_requests_total{{path="{path}",status="499"}} 1.0' in counted
        assert is_well(client)


def test_what_takes_too_long_is_given_up(start: Any) -> None:
    engine = SlowEngine()
    with start(engine.hold, limits=Limits(request_seconds=0.5)) as client:
        answer = client.post("/v1/annotate", json={"text": "Gout is rare."})
        assert answer.status_code == 503 and "too long" in answer.json()["detail"]
        engine.go.set()


def test_head_is_answered_as_get_without_a_body(start: Any) -> None:
    """What probes of load balancers ask."""
    with start() as client:
        for path in ("/health", "/v1/models", "/"):
            got, head = client.get(path), client.head(path)
            assert head.status_code == 200 and head.content == b""
            assert head.headers["content-type"] == got.headers["content-type"]
        assert client.head("/nowhere").status_code == 404


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_told_to_end_does_so_and_goes_back_to_who_started_it(
    tagger_folder: Path, told: signal.Signals
) -> None:
    # uvicorn raises the signal once more when it has ended: the process would go without its report, and leave the
    # leaderboard that was made for the service behind.
    again: list[int] = []
    before = signal.signal(told, lambda number, _: again.append(number))
    service = open_service([tagger_folder], port=0, engine="torch")

    def tell() -> None:
        while not service.server.started:
            time.sleep(0.05)
        os.kill(os.getpid(), told)

    try:
        threading.Thread(target=tell).start()
        service.run()
        assert again == []
        os.kill(os.getpid(), told)
        assert again == [told]
    finally:
        signal.signal(told, before)
