"""Where a file's own offsets and mention texts meet the document's text: the text wins, the rest is written down.

Every reader makes its mentions here, so that `text[start:end]` of each fragment is what the mention says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from biosmith.rejects import Rejects
from biosmith.text.document import Mention, fragment_text

STATED_TEXT = (
    "stated_text"  # infon that keeps what the file itself calls the mention where its offsets say otherwise
)
OUTSIDE = "mention lies outside the text"
DIFFERS = "mention text differs from the document's text at its offsets"

# What formats put between the parts of a discontinuous mention, if anything.
_JOINERS = re.compile(r"\s+|\.\.\.|…|\|")


def place_mention(
    text: str,
    fragments: Iterable[tuple[int, int]],
    stated: str | None,
    *,
    rejects: Rejects,
    file: str,
    record: object,
    type: str = "",
    score: float | None = None,
    ids: Sequence[str] = (),
    id: str = "",
    infons: Mapping[str, str] | None = None,
) -> Mention | None:
    """A mention whose text is the document's text at its fragments; None if the fragments are not in the text.

    Args:
        text: the document's text.
        fragments: (start, end) in code points of `text`, in any order.
        stated: the mention's text according to the file; None if the file gives none.
        rejects, file, record: where a mention is written down that lies outside the text (it is left out)
            or whose stated text is another than the document's (it is kept, the stated text in an infon).
    """
    spans = tuple(sorted((int(start), int(end)) for start, end in fragments))
    if not spans or any(not 0 <= start < end <= len(text) for start, end in spans):
        rejects.add(file, record, OUTSIDE, f"{stated or id!r} at {_show(spans)} of {len(text)} characters")
        return None
    found = fragment_text(text, spans)
    extra = dict(infons or {})
    if stated is not None and found != stated and not _same(found, stated, len(spans) > 1):
        rejects.add(file, record, DIFFERS, f"{stated!r} at {_show(spans)}, where the text is {found!r}")
        extra[STATED_TEXT] = stated
    start, end = spans[0][0], max(end for _, end in spans)
    return Mention(start, end, found, type, score, tuple(ids), spans, id, extra)


def agrees(text: str, fragments: Sequence[tuple[int, int]], stated: str) -> bool:
    """Whether the stated text is the text at the fragments, white space and the parts' joiners aside."""
    if any(not 0 <= start < end <= len(text) for start, end in fragments):
        return False
    found = fragment_text(text, sorted(fragments))
    return found == stated or _same(found, stated, len(fragments) > 1)


def _same(found: str, stated: str, several: bool) -> bool:
    if several:
        return _JOINERS.sub("", found) == _JOINERS.sub("", stated)
    return found.split() == stated.split()


def _show(spans: Sequence[tuple[int, int]]) -> str:
    return ";".join(f"{start}-{end}" for start, end in spans) or "no place"
