"""One file from an HTTP server that may misbehave: resumed, retried, checked, and renamed only when it is right.

A download goes to `.NAME.part` first and a later call goes on with it. A body that is cut, a connection that is
closed, a server that restarts or is too busy are tried again, after a pause that doubles each time; only attempts in
a row that bring no byte count against `attempts`. A server that knows no ranges sends the whole again. A file whose
checksum is wrong is fetched again from its first byte.
"""

from __future__ import annotations

import email.utils
import hashlib
import re
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from biosmith.errors import BiosmithError
from biosmith.version import __version__

_CHUNK = 1 << 18
_REDIRECTS_ONLY = urllib3.Retry(
    total=5,
    redirect=5,
    connect=0,
    read=0,
    status=0,
    other=0,
    raise_on_status=False,
    respect_retry_after_header=False,
)
_BUSY = (408, 425, 429, 500, 502, 503, 504)
_MD5 = re.compile(r"\b[0-9a-fA-F]{32}\b")


class NotThere(BiosmithError):
    """The server says that there is no such file."""


@dataclass(frozen=True)
class Patience:
    """How to treat the server.

    Attributes:
        attempts: failures in a row without a new byte after which a file is given up.
        pause: seconds before the second attempt; doubles each time.
        longest_pause: seconds; also the longest `Retry-After` that is obeyed.
        connect_timeout, read_timeout: seconds without an answer or a byte.
        requests_a_second: over all downloads together; NCBI asks for at most 3.
        bytes_a_second: over all downloads together; None sets no limit.
    """

    attempts: int = 6
    pause: float = 1.0
    longest_pause: float = 60.0
    connect_timeout: float = 15.0
    read_timeout: float = 60.0
    requests_a_second: float = 3.0
    bytes_a_second: float | None = None


class Server:
    """HTTP requests to one or more hosts, within the limits of a `Patience`; safe to share between threads."""

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()
        self._requests = _Limit(self.patience.requests_a_second)
        self._bytes = _Limit(self.patience.bytes_a_second)
        self._pools: dict[str | None, urllib3.PoolManager] = {}
        self._lock = threading.Lock()

    def text(self, url: str) -> str:
        """A small text file, such as a listing or a checksum.

        Raises:
            NotThere: status 404 or 410.
            BiosmithError: any other failure, after all attempts.
        """
        tries = _Tries(url, self.patience)
        while True:
            try:
                response = self._get(url, {})
                data = response.data
            except (HTTPError, OSError) as error:
                tries.failed(_reason(error))
                continue
            if response.status == 200:
                return data.decode("utf-8", "replace")
            tries.answered(response)

    def download(self, url: str, path: Path, advance: Callable[[int], None]) -> bool:
        """Fetch a file, unless it is there and right already; True if it had to be fetched.

        Args:
            url: the file; its checksum is looked for at `url + ".md5"`. Without one, a gzip file is checked by its
                own checksum.
            path: where it goes.
            advance: is told the number of bytes received since the last call.

        Raises:
            NotThere: there is no such file.
            BiosmithError: it could not be fetched, or its checksum is wrong however often it is fetched.
        """
        checksum = self._checksum(url)
        if path.is_file() and _is_right(path, checksum):
            return False
        part = path.with_name(f".{path.name}.part")
        for _ in range(3):
            self._fetch(url, part, advance)
            if _is_right(part, checksum):
                part.replace(path)
                return True
            part.unlink()
        raise BiosmithError(f"{url}: the checksum is wrong in three downloads; nothing was kept")

    def _checksum(self, url: str) -> str | None:
        try:
            text = self.text(f"{url}.md5")
        except NotThere:
            return None
        found = _MD5.search(text)
        if found is None:
            raise BiosmithError(f"{url}.md5 holds no MD5 checksum (found {text[:60]!r})")
        return found[0].lower()

    def _fetch(self, url: str, part: Path, advance: Callable[[int], None]) -> None:
        """Receive bytes until the server says that there are no more."""
        tries = _Tries(url, self.patience)
        while True:
            offset = part.stat().st_size if part.is_file() else 0
            try:
                response = self._get(url, {"Range": f"bytes={offset}-"} if offset else {})
                if response.status == 206 and not _begins_at(response, offset):
                    response.close()
                    part.unlink()  # the server answers another range than the one asked for
                    tries.failed("answered with a wrong range")
                    continue
                if response.status in (200, 206):
                    with part.open("ab" if response.status == 206 else "wb") as stream:
                        self._receive(response, stream.write, advance, tries)
                    return
                if response.status == 416:  # nothing after `offset`: the file is complete, or a wrong one
                    response.close()
                    if _total(response) == offset:
                        return
                    part.unlink()
                    tries.failed("has fewer bytes than were received before")
                    continue
            except (HTTPError, TimeoutError, ConnectionError) as error:
                tries.failed(_reason(error))
                continue
            tries.answered(response)

    def _receive(
        self,
        response: urllib3.BaseHTTPResponse,
        write: Callable[[bytes], object],
        advance: Callable[[int], None],
        tries: _Tries,
    ) -> None:
        try:
            for chunk in response.stream(_CHUNK, decode_content=False):
                write(chunk)
                tries.succeeded()
                advance(len(chunk))
                self._bytes.wait(len(chunk))
        finally:
            response.close()

    def _get(self, url: str, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        self._requests.wait(1)
        return self._pool(url).request(
            "GET",
            url,
            headers={"User-Agent": f"biosmith/{__version__}", "Accept-Encoding": "identity", **headers},
            preload_content=False,
            retries=_REDIRECTS_ONLY,
            timeout=urllib3.Timeout(connect=self.patience.connect_timeout, read=self.patience.read_timeout),
        )

    def _pool(self, url: str) -> urllib3.PoolManager:
        """Connections, through the proxy that the environment names for the host, if it names one."""
        parts = urlsplit(url)
        proxy = urllib.request.getproxies().get(parts.scheme)
        if proxy is not None and urllib.request.proxy_bypass(parts.hostname or ""):
            proxy = None
        with self._lock:
            if proxy not in self._pools:
                self._pools[proxy] = urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager()
            return self._pools[proxy]


class _Tries:
    """Counts failures in a row, pauses between them, and gives up."""

    def __init__(self, url: str, patience: Patience) -> None:
        self.url, self.patience = url, patience
        self.failures = 0

    def succeeded(self) -> None:
        self.failures = 0

    def failed(self, reason: str, pause: float | None = None) -> None:
        """Wait until the next attempt. Raises `BiosmithError` after the last."""
        self.failures += 1
        if self.failures >= self.patience.attempts:
            raise BiosmithError(f"{self.url}: {reason}; given up after {self.failures} attempts")
        if pause is None:
            pause = self.patience.pause * 2 ** (self.failures - 1)
        time.sleep(min(pause, self.patience.longest_pause))

    def answered(self, response: urllib3.BaseHTTPResponse) -> None:
        """Wait if the server is busy. Raises `NotThere` or `BiosmithError` for an answer that waiting does not change."""
        response.close()
        status = f"HTTP status {response.status} {response.reason or ''}".strip()
        if response.status in (404, 410):
            raise NotThere(f"{self.url}: {status}")
        if response.status not in _BUSY:
            raise BiosmithError(f"{self.url}: {status}")
        self.failed(status, _retry_after(response))


class _Limit:
    """At most so many units a second, over all threads; None never waits."""

    def __init__(self, a_second: float | None) -> None:
        self.a_second = a_second
        self._free_at = 0.0
        self._lock = threading.Lock()

    def wait(self, units: int) -> None:
        if self.a_second is None:
            return
        with self._lock:
            now = time.monotonic()
            start = max(now, self._free_at)
            self._free_at = start + units / self.a_second
        time.sleep(start - now)


def _is_right(path: Path, checksum: str | None) -> bool:
    if not path.is_file():
        return False
    if checksum is not None:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "md5").hexdigest() == checksum
    return _is_whole_gzip(path) if path.name.removesuffix(".part").endswith(".gz") else True


def _is_whole_gzip(path: Path) -> bool:
    """Whether the file is one or more gzip members to its last byte, by their own checksums."""
    inflate = zlib.decompressobj(31)
    with path.open("rb") as stream:
        try:
            while chunk := stream.read(_CHUNK):
                while chunk:
                    if inflate.eof:
                        inflate = zlib.decompressobj(31)
                    inflate.decompress(chunk)
                    chunk = inflate.unused_data
        except zlib.error:
            return False
    return inflate.eof


def _begins_at(response: urllib3.BaseHTTPResponse, offset: int) -> bool:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return found is not None and int(found[1]) == offset


def _total(response: urllib3.BaseHTTPResponse) -> int | None:
    found = re.search(r"/(\d+)$", response.headers.get("Content-Range", ""))
    return None if found is None else int(found[1])


def _retry_after(response: urllib3.BaseHTTPResponse) -> float | None:
    """Seconds that the server asks to wait, from either form of the header."""
    value = response.headers.get("Retry-After", "").strip()
    if not value:
        return None
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _reason(error: Exception) -> str:
    """The innermost message of urllib3's nested errors."""
    reason = getattr(error, "reason", None)
    text = str(reason if isinstance(reason, Exception) else error)
    text = re.sub(r"^<[^>]*>: |^\w+\(host=[^)]*\): ", "", text)
    return text.rstrip(".") or type(error).__name__
