"""What the service counts, in the form that Prometheus reads."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters of one service.

    Args:
        waiting: gives the characters that wait for the engine.
    """

    def __init__(self, waiting: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "biosmith_requests", "Requests answered.", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "biosmith_request_seconds", "From the headers to the end of the answer.", ["path"],
            registry=self.registry, buckets=SECONDS,
        )  # fmt: skip
        self.documents = Counter("biosmith_documents", "Documents annotated.", registry=self.registry)
        self.mentions = Counter("biosmith_mentions", "Mentions found.", registry=self.registry)
        self.failed = Counter(
            "biosmith_documents_failed", "Documents that could not be annotated.", registry=self.registry
        )
        self.under_way = Gauge("biosmith_requests_under_way", "Requests taken in.", registry=self.registry)
        gauge = Gauge(
            "biosmith_waiting_characters", "Text that waits for the engine.", registry=self.registry
        )
        gauge.set_function(waiting)

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)
