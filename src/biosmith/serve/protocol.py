"""HTTP/1.1 of uvicorn with a clock on the headers, against clients that send them a byte a minute."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class ImpatientProtocol(H11Protocol):
    """Closes connections whose next request is not complete in its headers after `header_seconds`."""

    header_seconds = 10.0
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        if self._is_between_requests() and self._clock is None:
            self._start_clock()
        super().data_received(data)
        if not self._is_between_requests():
            self._stop_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _start_clock(self) -> None:
        self._clock = self.loop.call_later(self.header_seconds, self._give_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        self._clock = None
        if self._is_between_requests() and not self.transport.is_closing():
            self.transport.close()


def with_deadline(seconds: float) -> type[Any]:
    """The protocol with a deadline of its own."""
    return type("ImpatientProtocol", (ImpatientProtocol,), {"header_seconds": seconds})
