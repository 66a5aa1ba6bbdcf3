"""Fetching from a server that misbehaves in every way that bulk servers do."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import random
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from biosmith.corpus.download import NotThere, Patience, Server
from biosmith.corpus.fetch import COLLECTIONS, fetch, find_urls, parse_numbers
from biosmith.errors import BiosmithError, UsageError

FAST = Patience(attempts=4, pause=0.01, longest_pause=0.2, read_timeout=2.0, requests_a_second=1000)
NOISE = random.Random(5).randbytes(300_000)  # does not compress, so that the files have a size to be cut


class Misbehaving(http.server.ThreadingHTTPServer):
    """Serves `files` (path -> bytes); `trouble(handler, body)` may take over a GET and return True."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.files: dict[str, bytes] = {}
        self.trouble: Callable[[Any, bytes], bool] = lambda handler, body: False
        self.ranges = True
        self.requests: list[tuple[str, str | None]] = []
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def stop(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections are cut on purpose here."""

    def add(self, path: str, body: bytes, checksum: bool = True) -> None:
        name = path.rpartition("/")[2]
        self.files[path] = body
        if checksum:
            self.files[path + ".md5"] = f"MD5({name})= {hashlib.md5(body).hexdigest()}\n".encode()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Misbehaving

    def log_message(self, *arguments: object) -> None:
        """Tests stay quiet."""

    def do_GET(self) -> None:
        path = self.path.lstrip("/")
        self.server.requests.append((path, self.headers.get("Range")))
        body = self.server.files.get(path)
        if body is None and (path == "" or path.endswith("/")):
            names = [
                f[len(path) :] for f in self.server.files if f.startswith(path) and "/" not in f[len(path) :]
            ]
            if names:
                body = "".join(f'<a href="{name}">{name}</a>\n' for name in names).encode()
        if body is None:
            self.send_error(404)
        elif not self.server.trouble(self, body):
            self.answer(body)

    def answer(self, body: bytes, send: int | None = None, length: bool = True) -> None:
        """The right answer, of which only the first `send` bytes are sent."""
        start = 0
        if self.server.ranges and (asked := self.headers.get("Range")):
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if length:
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start:] if send is None else body[start : start + send])

    def hang_up(self) -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def server() -> Iterator[Misbehaving]:
    server = Misbehaving()
    yield server
    server.stop()


def baseline(server: Misbehaving, *numbers: int, folder: str = "baseline/") -> dict[int, bytes]:
    bodies = {}
    for number in numbers:
        bodies[number] = gzip.compress(f"<citation {number}>".encode() + NOISE, compresslevel=1, mtime=0)
        server.add(f"{folder}pubmed26n{number:04d}.xml.gz", bodies[number])
    return bodies


def once_for(name: str, act: Callable[[Any, bytes], None], times: int = 1) -> Callable[[Any, bytes], bool]:
    """Trouble at the first requests of one file only."""
    left = [times]

    def trouble(handler: Any, body: bytes) -> bool:
        if handler.path.endswith(name) and left[0] > 0:
            left[0] -= 1
            act(handler, body)
            return True
        return False

    return trouble


def check(out: Path, bodies: dict[int, bytes]) -> None:
    for number, body in bodies.items():
        assert (out / f"pubmed26n{number:04d}.xml.gz").read_bytes() == body
    assert not list(out.glob(".*"))  # no half files are left


def test_baseline_and_update_files_are_found_by_their_numbers(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1, 2) | baseline(server, 3, folder="updatefiles/")
    done = fetch("pubmed", [1, 2, 3], tmp_path, base_url=server.url, patience=FAST)
    assert done.files == tuple(f"pubmed26n000{i}.xml.gz" for i in (1, 2, 3))
    assert (done.fetched, done.bytes) == (3, sum(map(len, bodies.values())))
    check(tmp_path, bodies)


def test_files_that_are_there_and_right_are_not_fetched_again(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1, 2)
    fetch("pubmed", [1, 2], tmp_path, base_url=server.url, patience=FAST)
    (tmp_path / "pubmed26n0002.xml.gz").write_bytes(b"damaged")
    server.requests.clear()
    assert fetch("pubmed", [1, 2], tmp_path, base_url=server.url, patience=FAST).fetched == 1
    assert "baseline/pubmed26n0001.xml.gz" not in [path for path, _ in server.requests]
    check(tmp_path, bodies)


def test_a_truncated_body_is_continued_where_it_was_cut(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1)
    server.trouble = once_for("1.xml.gz", lambda handler, body: handler.answer(body, send=100_000))
    fetch("pubmed", [1], tmp_path, base_url=server.url, patience=FAST)
    check(tmp_path, bodies)
    asked = [wanted for path, wanted in server.requests if path.endswith("1.xml.gz")]
    assert asked == [None, "bytes=100000-"]


def test_a_body_cut_without_a_stated_length_is_found_by_its_checksum(
    server: Misbehaving, tmp_path: Path
) -> None:
    # Without Content-Length the end of the connection looks like the end of the file.
    bodies = baseline(server, 1)
    server.trouble = once_for(
        "1.xml.gz", lambda handler, body: handler.answer(body, send=50_000, length=False)
    )
    fetch("pubmed", [1], tmp_path, base_url=server.url, patience=FAST)
    check(tmp_path, bodies)


def test_a_connection_closed_in_the_middle_again_and_again_still_ends_well(
    server: Misbehaving, tmp_path: Path
) -> None:
    # More interruptions than attempts, but each brings bytes: only attempts in a row without any count.
    bodies = baseline(server, 1)

    def cut(handler: Any, body: bytes) -> None:
        handler.answer(body, send=30_000)
        handler.hang_up()

    server.trouble = once_for("1.xml.gz", cut, times=8)
    fetch("pubmed", [1], tmp_path, base_url=server.url, patience=FAST)
    check(tmp_path, bodies)


def test_a_server_without_ranges_is_asked_for_the_whole_again(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1)
    server.ranges = False
    server.trouble = once_for("1.xml.gz", lambda handler, body: handler.answer(body, send=100_000))
    fetch("pubmed", [1], tmp_path, base_url=server.url, patience=FAST)
    check(tmp_path, bodies)


def test_a_wrong_checksum_makes_it_start_from_the_first_byte(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1)
    server.trouble = once_for("1.xml.gz", lambda handler, body: handler.answer(body[:-1] + b"?"))
    fetch("pubmed", [1], tmp_path, base_url=server.url, patience=FAST)
    check(tmp_path, bodies)
    assert [wanted for path, wanted in server.requests if path.endswith("1.xml.gz")] == [None, None]


def test_a_checksum_that_stays_wrong_fails_and_keeps_nothing(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1, 2)
    server.files["baseline/pubmed26n0002.xml.gz.md5"] = b"MD5(x)= " + b"0" * 32
    with pytest.raises(BiosmithError, match=r"1 of 2 files.*checksum is wrong"):
        fetch("pubmed", [1, 2], tmp_path, base_url=server.url, patience=FAST)
    check(tmp_path, {1: bodies[1]})
    assert not (tmp_path / "pubmed26n0002.xml.gz").exists()


def test_a_busy_server_is_waited_for_as_long_as_it_asks(server: Misbehaving, tmp_path: Path) -> None:
    def busy(handler: Any, body: bytes) -> None:
        handler.send_response(503)
        handler.send_header("Retry-After", "0")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    bodies = baseline(server, 1)
    # pauses of 30 s would be taken if the header were not obeyed
    patience = Patience(attempts=4, pause=30, longest_pause=30, requests_a_second=1000)
    server.trouble = once_for("1.xml.gz", busy, times=3)
    fetch("pubmed", [1], tmp_path, base_url=server.url, patience=patience)
    check(tmp_path, bodies)


def test_a_server_that_stays_busy_is_given_up_with_its_status(server: Misbehaving, tmp_path: Path) -> None:
    baseline(server, 1)
    server.trouble = once_for("1.xml.gz", lambda handler, body: handler.send_error(503), times=99)
    with pytest.raises(BiosmithError, match=r"HTTP status 503.*given up after 4 attempts"):
        fetch("pubmed", [1], tmp_path, base_url=server.url, patience=FAST)


def test_a_server_restarted_in_the_middle_is_found_again(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1)
    first = Misbehaving()
    first.files, port = server.files, first.server_address[1]
    stopped = threading.Event()

    def die(handler: Any, body: bytes) -> None:
        handler.answer(body, send=40_000)
        handler.hang_up()
        stopped.set()

    first.trouble = once_for("1.xml.gz", die)
    second: list[Misbehaving] = []

    def restart() -> None:
        assert stopped.wait(10)
        first.stop()
        again = Misbehaving(port)
        again.files = server.files
        second.append(again)

    thread = threading.Thread(target=restart)
    thread.start()
    patience = Patience(attempts=8, pause=0.05, longest_pause=1.0, read_timeout=2.0, requests_a_second=1000)
    fetch("pubmed", [1], tmp_path, base_url=f"http://127.0.0.1:{port}/", patience=patience)
    thread.join()
    second[0].stop()
    check(tmp_path, bodies)


def test_a_later_call_goes_on_with_what_an_earlier_one_received(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1)
    (tmp_path / ".pubmed26n0001.xml.gz.part").write_bytes(bodies[1][:123_456])
    fetch("pubmed", [1], tmp_path, base_url=server.url, patience=FAST)
    check(tmp_path, bodies)
    assert ("baseline/pubmed26n0001.xml.gz", "bytes=123456-") in server.requests


@pytest.mark.parametrize("left_over", [b"whole", b"longer", b"other"])
def test_a_left_over_part_of_any_length_ends_well(
    server: Misbehaving, tmp_path: Path, left_over: bytes
) -> None:
    bodies = baseline(server, 1)
    content = {b"whole": bodies[1], b"longer": bodies[1] + b"?", b"other": b"x" * 1000}[left_over]
    (tmp_path / ".pubmed26n0001.xml.gz.part").write_bytes(content)
    fetch("pubmed", [1], tmp_path, base_url=server.url, patience=FAST)
    check(tmp_path, bodies)


def test_a_number_that_the_server_does_not_have_is_a_wrong_call(server: Misbehaving, tmp_path: Path) -> None:
    baseline(server, 1, 2)
    with pytest.raises(UsageError, match=r"no file number 7.*it has 2 files, 1 to 2"):
        fetch("pubmed", [1, 7], tmp_path, base_url=server.url, patience=FAST)


def test_a_listed_file_that_is_gone_does_not_stop_the_others(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1, 2)
    server.trouble = once_for("2.xml.gz", lambda handler, body: handler.send_error(404), times=99)
    with pytest.raises(BiosmithError, match=r"1 of 2 files could not be fetched.*404.*the same call goes on"):
        fetch("pubmed", [1, 2], tmp_path, base_url=server.url, patience=FAST)
    check(tmp_path, {1: bodies[1]})


def test_a_mirror_without_folders_or_listings_is_understood(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1, folder="")
    fetch("pubmed", [1], tmp_path / "flat", base_url=server.url, patience=FAST)
    check(tmp_path / "flat", bodies)
    server.trouble = lambda handler, body: handler.path.endswith("/") and (handler.send_error(404), True)[1]
    from datetime import UTC, datetime

    name = f"pubmed{datetime.now(UTC).year % 100:02d}n0001.xml.gz"
    server.files.clear()
    server.add(f"baseline/{name}", bodies[1])
    done = fetch("pubmed", [1], tmp_path / "unlisted", base_url=server.url, patience=FAST)
    assert done.files == (name,)


def test_pmc_packages_without_a_checksum_file_are_checked_as_gzip(
    server: Misbehaving, tmp_path: Path
) -> None:
    name = "oa_comm_xml.PMC003xxxxxx.baseline.2025-06-26.tar.gz"
    body = gzip.compress(NOISE, compresslevel=1, mtime=0)
    server.add(f"oa_comm/xml/{name}", body, checksum=False)
    server.trouble = once_for(name, lambda handler, body: handler.answer(body, send=70_000, length=False))
    fetch("pmc", [3], tmp_path, base_url=server.url, patience=FAST)
    assert (tmp_path / name).read_bytes() == body


def test_redirects_are_followed(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1)
    server.files["elsewhere.gz"] = bodies[1]

    def redirect(handler: Any, body: bytes) -> None:
        handler.send_response(302)
        handler.send_header("Location", "/elsewhere.gz")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.trouble = once_for("1.xml.gz", redirect)
    fetch("pubmed", [1], tmp_path, base_url=server.url, patience=FAST)
    check(tmp_path, bodies)


def test_speed_and_requests_keep_to_their_limits(server: Misbehaving, tmp_path: Path) -> None:
    import time

    baseline(server, 1)
    # 0.3 MB at 1 MB a second; the first chunk is free, so at least 0.05 s of the 0.3 s must pass in waiting
    patience = Patience(bytes_a_second=1e6, requests_a_second=1000)
    began = time.monotonic()
    fetch("pubmed", [1], tmp_path, base_url=server.url, patience=patience)
    assert time.monotonic() - began > 0.05


def test_an_unreachable_server_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(BiosmithError, match="given up after 4 attempts") as error:
        fetch("pubmed", [1], tmp_path, base_url=f"http://127.0.0.1:{port}/", patience=FAST)
    assert "\n" not in str(error.value)


def test_missing_text_is_told_apart_from_other_failures(server: Misbehaving) -> None:
    with pytest.raises(NotThere, match="404"):
        Server(FAST).text(server.url + "nothing.md5")


def test_wrong_calls_name_what_is_valid(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="valid: pubmed, pmc"):
        fetch("pubmad", [1], tmp_path)
    with pytest.raises(UsageError, match="between 1 and 4"):
        fetch("pubmed", [1], tmp_path, at_once=20)
    with pytest.raises(UsageError, match="valid: http"):
        fetch("pubmed", [1], tmp_path, base_url="ftp://somewhere/")
    # Before the server is asked, which would be a failure here, not a wrong call.
    nowhere = "http://127.0.0.1:9/"
    with pytest.raises(UsageError, match="begin with 0; those of pubmed begin with 1"):
        fetch("pubmed", [0, 1], tmp_path, base_url=nowhere, patience=FAST)
    with pytest.raises(UsageError, match="are none"):
        fetch("pubmed", [], tmp_path, base_url=nowhere, patience=FAST)


@pytest.mark.parametrize(("text", "numbers"), [("7", [7]), ("1-3", [1, 2, 3]), ("5, 1-2,2", [1, 2, 5])])
def test_ranges_of_numbers_are_read(text: str, numbers: list[int]) -> None:
    assert parse_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "1--3", "1;2"])
def test_other_ranges_are_wrong_calls(text: str) -> None:
    with pytest.raises(UsageError, match="valid: 1-10"):
        parse_numbers(text)


def test_names_of_nlm_are_recognised_and_nothing_else(server: Misbehaving) -> None:
    for name in (
        "pubmed26n0001.xml.gz",
        "pubmed26n0001.xml.gz.md5",
        "pubmed26n0002_stats.html",
        "README.txt",
    ):
        server.files[f"baseline/{name}"] = b""
    urls = find_urls(Server(FAST), COLLECTIONS["pubmed"], [1], server.url)
    assert urls == {"pubmed26n0001.xml.gz": server.url + "baseline/pubmed26n0001.xml.gz"}
    with pytest.raises(UsageError, match="has 1 files"):
        find_urls(Server(FAST), COLLECTIONS["pubmed"], [2], server.url)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan")])
def test_a_limit_of_speed_that_lets_nothing_through_is_refused(tmp_path: Path, speed: float) -> None:
    with pytest.raises(UsageError, match=r"--megabytes-per-second is .*more than 0"):
        fetch(
            "pubmed", [1], tmp_path, base_url="http://127.0.0.1:9/", patience=Patience(bytes_a_second=speed)
        )


@pytest.mark.parametrize("address", ["http://127.0.0.1:99999/", "http:///pubmed", "https://"])
def test_an_address_that_can_be_none_is_not_tried_again_and_again(tmp_path: Path, address: str) -> None:
    # Half a minute of attempts would end in the words of a library.
    with pytest.raises(UsageError, match="is not an address"):
        fetch("pubmed", [1], tmp_path, base_url=address, patience=FAST)


def test_a_file_in_the_place_of_the_folder_is_seen_before_the_server_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match=r"cannot be written: .*file is no folder"):
            fetch("pubmed", [1], out, base_url="http://127.0.0.1:9/", patience=FAST)


def test_a_full_disk_is_one_clear_line_and_the_same_call_goes_on(server: Misbehaving, tmp_path: Path) -> None:
    bodies = baseline(server, 1, 2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))  # no file may grow beyond that
    try:
        with pytest.raises(BiosmithError, match=r"out: File too large; .*the same call goes on"):
            fetch("pubmed", [1, 2], tmp_path / "out", base_url=server.url, patience=FAST)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert fetch("pubmed", [1, 2], tmp_path / "out", base_url=server.url, patience=FAST).fetched == 2
    check(tmp_path / "out", bodies)
