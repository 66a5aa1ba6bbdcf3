"""The leaderboard beside the page: a site that is there, or one made of results for as long as the service runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from biosmith.bench.leaderboard import build_site
from biosmith.errors import UsageError


@contextmanager
def leaderboard_site(results: Path | None) -> Iterator[Path | None]:
    """The folder of the site; None without results.

    Raises:
        UsageError: there is neither a site nor a result at the path.
    """
    if results is None:
        yield None
    elif (results / "index.html").is_file():
        yield results
    elif not results.exists():
        raise UsageError(f"{results} does not exist")
    else:
        with tempfile.TemporaryDirectory(prefix="biosmith-") as folder:
            build_site([results], Path(folder) / "site")
            yield Path(folder) / "site"
