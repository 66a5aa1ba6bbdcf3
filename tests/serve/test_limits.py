"""Too large, too slow, too many, without a token: refused cleanly, and the service goes on."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from biosmith.serve.server import Service
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


def test_a_body_in_an_encoding_is_refused_by_its_name(start: Any) -> None:
    with start() as client:
        body = gzip.compress(b'{"text": "Gout."}')
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        answer = client.post("/v1/annotate", content=body, headers=headers)
        assert answer.status_code == 415 and "Content-Encoding 'gzip'" in answer.json()["detail"]
        headers["Content-Encoding"] = "identity"
        assert client.post("/v1/annotate", content=b'{"text": "Gout."}', headers=headers).status_code == 200


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
