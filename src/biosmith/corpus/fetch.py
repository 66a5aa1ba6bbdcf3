"""The official bulk files of PubMed and PubMed Central, by their numbers.

PubMed: baseline and update files, `pubmed26n0001.xml.gz` and on, numbered through; a number is looked for in
`baseline/` and then in `updatefiles/`. PubMed Central: the open-access packages of XML with a licence for commercial
use, `oa_comm_xml.PMC000xxxxxx.baseline.2025-06-26.tar.gz` and on; the number is that after "PMC".
https://pubmed.ncbi.nlm.nih.gov/download/ and https://pmc.ncbi.nlm.nih.gov/tools/ftp/ say what they hold and under
what terms.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from urllib.parse import unquote, urljoin, urlsplit

from biosmith.artefact import require_writable
from biosmith.corpus.download import NotThere, Patience, Server
from biosmith.errors import BiosmithError, UsageError
from biosmith.progress import progress, say

MOST_AT_ONCE = 4  # downloads at the same time; NLM asks users to be few


@dataclass(frozen=True)
class Collection:
    """A series of numbered files on a server.

    Attributes:
        base_url: where it lies.
        folders: below the base, in the order in which they are looked through.
        pattern: of file names; its first group is the number.
        guess: name of a file by number and two-digit year, for servers without listings; None where a name cannot
            be guessed.
        first: the lowest number.
    """

    base_url: str
    folders: tuple[str, ...]
    pattern: re.Pattern[str]
    guess: str | None = None
    first: int = 1


COLLECTIONS = {
    "pubmed": Collection(
        "https://ftp.ncbi.nlm.nih.gov/pubmed/",
        ("baseline/", "updatefiles/"),
        re.compile(r"pubmed\d\dn(\d{4,})\.xml\.gz"),
        "pubmed{year:02d}n{number:04d}.xml.gz",
    ),
    "pmc": Collection(
        "https://ftp.ncbi.nlm.nih.gov/pub/pmc/oa_bulk/",
        ("oa_comm/xml/",),
        re.compile(r"oa_\w+_xml\.PMC(\d{3})xxxxxx\.baseline\.[\d-]+\.tar\.gz"),
        first=0,
    ),
}


@dataclass(frozen=True)
class Fetched:
    """What `fetch` did.

    Attributes:
        files: names of all files asked for that are in the folder now, in order.
        fetched: how many of them were fetched by this call; the others were there, with the right checksum.
        bytes: size of all of them.
    """

    files: tuple[str, ...]
    fetched: int
    bytes: int


def fetch(
    collection: str,
    numbers: Sequence[int],
    out: Path,
    *,
    base_url: str | None = None,
    at_once: int = 2,
    patience: Patience | None = None,
) -> Fetched:
    """Download files by number, checked against their checksums; call again to go on after a stop.

    Args:
        collection: a key of `COLLECTIONS`.
        numbers: of the files; see `parse_numbers`.
        out: folder for the files; what is there and right is left alone.
        base_url: of a mirror, instead of NLM's server. Its files may lie in the folders of the original or directly
            below it.
        at_once: downloads at the same time.
        patience: retries, time-outs and limits.

    Raises:
        UsageError: an unknown collection, a number that the server does not have, too many downloads at once, a limit of
            speed that is not above 0, or a folder that cannot be made.
        BiosmithError: some files could not be fetched, or the disk is full; the others are there.
    """
    if collection not in COLLECTIONS:
        raise UsageError(f"{collection!r} is not a collection; valid: {', '.join(COLLECTIONS)}")
    lowest = COLLECTIONS[collection].first
    if not numbers or min(numbers) < lowest:
        given = f"begin with {min(numbers)}" if numbers else "are none"
        raise UsageError(f"the numbers of files {given}; those of {collection} begin with {lowest}")
    if not 1 <= at_once <= MOST_AT_ONCE:
        raise UsageError(f"{at_once} downloads at once; must lie between 1 and {MOST_AT_ONCE}")
    if base_url is not None and not _is_address(base_url):
        raise UsageError(f"base_url {base_url!r} is not an address; valid: http://... or https://...")
    limit = None if patience is None else patience.bytes_a_second
    if limit is not None and not limit > 0:  # which NaN is not, either
        raise UsageError(f"--megabytes-per-second is {limit / 1e6:g}; it must be more than 0")
    require_writable(out / "pubmed.xml.gz")  # or another file
    server = Server(patience)
    urls = find_urls(server, COLLECTIONS[collection], numbers, base_url)
    out.mkdir(parents=True, exist_ok=True)
    failures: dict[str, BiosmithError] = {}
    fetched = 0
    with progress(f"Fetching {len(urls)} files", unit="MB") as advance, ThreadPoolExecutor(at_once) as pool:
        counter = _Megabytes(advance)
        futures = {pool.submit(server.download, url, out / name, counter): name for name, url in urls.items()}
        try:
            for future in as_completed(futures):
                try:
                    fetched += future.result()
                except BiosmithError as error:
                    failures[futures[future]] = error
                    say(f"{error}")
        except OSError as error:  # a full disk, most often; what others would write would not fit either
            pool.shutdown(cancel_futures=True)
            raise BiosmithError(
                f"{out}: {error.strerror or error}; what was fetched is kept, the same call goes on"
            ) from error
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    there = tuple(name for name in urls if name not in failures)
    if failures:
        first = next(iter(failures.values()))
        raise BiosmithError(
            f"{len(failures)} of {len(urls)} files could not be fetched (first: {first}); "
            f"{len(there)} are in {out}, the same call goes on"
        )
    return Fetched(there, fetched, sum((out / name).stat().st_size for name in there))


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port, or of brackets that do not close
        return False


def parse_numbers(text: str) -> list[int]:
    """The numbers in "1-10", "7" or "1-3,8", ascending.

    Raises:
        UsageError: the text says something else.
    """
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if first > last or last - first > 100_000:
            raise UsageError(f"--files {text!r} is not a range of file numbers; valid: 1-10, 7, or 1-3,8")
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def find_urls(
    server: Server, collection: Collection, numbers: Sequence[int], base_url: str | None
) -> dict[str, str]:
    """Name -> address of the files with the numbers, from the server's listings.

    Raises:
        UsageError: the server lists files, but not all of the numbers.
        BiosmithError: the server cannot be reached, or lists nothing and no name can be guessed.
    """
    base = (base_url or collection.base_url).rstrip("/") + "/"
    folders = collection.folders if base_url is None else ("", *collection.folders)
    listed: dict[int, tuple[str, str]] = {}
    for folder in folders:
        address = urljoin(base, folder)
        for name in _listing(server, address):
            found = collection.pattern.fullmatch(name)
            if found is not None:
                listed.setdefault(int(found[1]), (name, urljoin(address, name)))
    if not listed:
        return _guess_urls(server, collection, numbers, base, folders)
    missing = [number for number in numbers if number not in listed]
    if missing:
        raise UsageError(
            f"{base} has no file number {missing[0]}"
            + (f" (nor {len(missing) - 1} others)" if missing[1:] else "")
            + f"; it has {len(listed)} files, {min(listed)} to {max(listed)}"
        )
    return dict(listed[number] for number in numbers)


def _listing(server: Server, address: str) -> list[str]:
    """File names that the page at an address links to."""
    try:
        page = server.text(address)
    except NotThere:
        return []
    links = re.findall(r"""href\s*=\s*["']([^"'?#]+)""", page, re.IGNORECASE)
    return [unquote(html.unescape(link)).rpartition("/")[2] for link in links]


def _guess_urls(
    server: Server, collection: Collection, numbers: Sequence[int], base: str, folders: Sequence[str]
) -> dict[str, str]:
    """Where nothing is listed: the name that has a checksum file, of this or a neighbouring year."""
    if collection.guess is not None:
        this_year = datetime.now(UTC).year
        for year in (this_year, this_year + 1, this_year - 1):
            for folder in folders:
                names = [collection.guess.format(year=year % 100, number=number) for number in numbers]
                try:
                    server.text(urljoin(base, f"{folder}{names[0]}.md5"))
                except NotThere:
                    continue
                return {name: urljoin(base, f"{folder}{name}") for name in names}
    raise BiosmithError(f"{base} lists no files of this collection")


class _Megabytes:
    """Turns bytes into whole megabytes for the progress bar; called from several threads."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance, self._bytes, self._lock = advance, 0, Lock()

    def __call__(self, count: int) -> None:
        with self._lock:
            before = self._bytes // 1_000_000
            self._bytes += count
            self._advance(self._bytes // 1_000_000 - before)
