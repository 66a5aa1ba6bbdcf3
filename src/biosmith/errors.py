"""Errors that name the file, the record, the value and the valid ones.

Exit codes of the command line: 0 done, 1 the work failed, 2 the call was wrong, 3 done but some input was set aside.
"""

from __future__ import annotations

from collections.abc import Iterable

DONE, FAILED, WRONG_CALL, SET_ASIDE = 0, 1, 2, 3


class BiosmithError(Exception):
    """The work failed for a reason that the user can understand; printed as one line."""

    exit_code = FAILED


class UsageError(BiosmithError):
    """The call itself was wrong: an unknown name, a folder that exists, options that exclude each other."""

    exit_code = WRONG_CALL


class BadInput(BiosmithError):
    """A file or record cannot be used.

    Args:
        file: the file, as the user named it.
        reason: what is wrong, in a few words.
        record: line number, PMID or other name of the record inside the file.
        value: the offending value.
        valid: the values that would have been right.
    """

    def __init__(
        self,
        file: object,
        reason: str,
        *,
        record: object | None = None,
        value: object | None = None,
        valid: Iterable[object] | None = None,
    ) -> None:
        self.file, self.reason, self.record, self.value = str(file), reason, record, value
        self.valid = None if valid is None else [str(v) for v in valid]
        place = self.file if record is None else f"{self.file}, {record}"
        text = f"{place}: {reason}"
        if value is not None:
            text += f" (found {shorten(value)})"
        if self.valid is not None:
            text += f"; valid: {', '.join(self.valid)}"
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors come back from worker processes; the default would call __init__ with the finished text alone.
        return _rebuild, (type(self), str(self), self.__dict__)


def _rebuild(kind: type[BadInput], text: str, state: dict[str, object]) -> BadInput:
    error = kind.__new__(kind, text)
    error.__dict__.update(state)
    return error


def shorten(value: object, limit: int = 120) -> str:
    """`repr` of a value, cut so that an error stays one readable line."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
