"""Requests made up from the service's own OpenAPI document: none brings it down, and no answer is undocumented."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = 15  # for each operation
# Schemathesis tries other methods and media types as well; what the service answers to these must be documented too.
CHECKS = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")


def test_no_request_made_from_the_schema_brings_the_service_down(client: httpx.Client) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks as of_openapi

    checks = [not_a_server_error, *(getattr(of_openapi, name) for name in CHECKS)]
    schema = schemathesis.openapi.from_url(str(client.base_url.join("/openapi.json")))
    operations = [operation.ok() for operation in schema.get_all_operations()]
    assert len(operations) >= 8
    for operation in operations:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def send(case: Any) -> None:
            case.call_and_validate(checks=checks)

        send()
    assert client.post("/v1/annotate", json={"text": "Gout is rare."}).status_code == 200


@settings(max_examples=60)
@given(
    content=st.binary(max_size=300)
    | st.sampled_from(
        [b"<?xml", b"{", b"PMID- ", b"1|t|", b"<article>", b"<collection>", b"title,text\n", b"\x1f\x8b\x08"]
    ).flatmap(lambda head: st.binary(max_size=200).map(lambda rest: head + rest)),
    path=st.sampled_from(
        [
            "/v1/annotate/file",
            "/v1/batch",
            "/v1/annotate",
            "/v1/convert?format=pubtator",
            *(
                f"/v1/annotate/file?from={f}&format=bioc-xml"
                for f in ("medline", "bioc-json", "pubtator", "jsonl", "plain", "csv", "squad", "cord19")
            ),
        ]
    ),
)
def test_no_bytes_bring_the_service_down(client: httpx.Client, content: bytes, path: str) -> None:
    answer = client.post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 413, 415, 422), answer.text
