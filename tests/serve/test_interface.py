"""The REST interface: what is asked is answered, and what is wrong is refused with a reason."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import httpx
import pytest

import biosmith

TEXT = "Patients with anemia were given heparin."
FOUND = [(14, 20, "anemia", "Disease"), (32, 39, "heparin", "Chemical")]
EXAMPLES = Path(__file__).parents[2] / "examples" / "data"


def found(document: dict) -> list[tuple[int, int, str, str]]:
    assert all(document["text"][m["start"] : m["end"]] == m["text"] for m in document["mentions"])
    return [(m["start"], m["end"], m["text"], m["type"]) for m in document["mentions"]]


def test_a_text_is_annotated(client: httpx.Client) -> None:
    answer = client.post("/v1/annotate", json={"text": TEXT})
    assert answer.status_code == 200
    (document,) = answer.json()["documents"]
    assert found(document) == FOUND and all(0 < m["score"] <= 1 for m in document["mentions"])
    assert answer.json()["failed"] == []


def test_documents_come_back_in_order_with_their_ids_whatever_these_are(client: httpx.Client) -> None:
    # Two documents of one id, and one without: the service must not tell documents apart by it.
    documents = [
        {"id": "a", "title": "Gout is rare.", "abstract": TEXT},
        {"id": "a", "text": "No effect of aspirin was seen."},
        {
            "passages": [
                {"text": "Gout is rare.", "kind": "title", "offset": 0},
                {"text": "😀 Gout is rare.", "offset": 20},
            ]
        },
        {"id": "e", "text": ""},
    ]
    answered = client.post("/v1/annotate", json={"documents": documents}).json()["documents"]
    assert [d["id"] for d in answered] == ["a", "a", "3", "e"]
    assert [[m[2] for m in found(d)] for d in answered] == [
        ["Gout", "anemia", "heparin"], ["aspirin"], ["Gout", "Gout"], [],
    ]  # fmt: skip
    assert answered[2]["passages"][1]["offset"] == 20


def test_offsets_count_code_points_not_utf_16_units(client: httpx.Client) -> None:
    (document,) = client.post("/v1/annotate", json={"text": "😀😀 Gout is rare."}).json()["documents"]
    assert (3, 7, "Gout") in [mention[:3] for mention in found(document)]


@pytest.mark.parametrize("format", ["bioc-json", "bioc-xml", "pubtator", "jsonl", "conll", "html"])
def test_answers_come_as_files_of_every_format(client: httpx.Client, tmp_path: Path, format: str) -> None:
    answer = client.post(f"/v1/annotate?format={format}", json={"documents": [{"id": "7", "abstract": TEXT}]})
    assert answer.status_code == 200 and "attachment" in answer.headers["content-disposition"]
    name = answer.headers["content-disposition"].split('"')[1]
    (tmp_path / name).write_bytes(answer.content)
    if format == "html":
        assert b"heparin" in answer.content
        return
    (document,) = biosmith.read(tmp_path / name)
    assert [(m.text, m.type) for m in document.mentions] == [(text, type) for _, _, text, type in FOUND]


@pytest.mark.parametrize("name", ["to-annotate.xml", "to-annotate.gold.pubtator", "jats/sample-article.nxml"])
def test_files_are_recognised_by_their_content(client: httpx.Client, name: str) -> None:
    content = (EXAMPLES / name).read_bytes()
    answered = client.post("/v1/annotate/file", content=content).json()
    assert [d["id"] for d in answered["documents"]] == [d.id for d in biosmith.read(EXAMPLES / name)]
    assert sum(len(found(d)) for d in answered["documents"]) > 0


ROWS = [("7", "Gout is rare", TEXT), ("8", "Nothing, at all", "No effect of aspirin was seen.")]


@pytest.mark.parametrize("separator", ["\t", ",", ";"])
@pytest.mark.parametrize("header", [("pmid", "title", "abstract"), ("PMID", "Title", "Abstract")])
def test_a_table_is_a_document_a_row(client: httpx.Client, separator: str, header: tuple[str, ...]) -> None:
    # A cell that holds the separator is quoted in CSV; tab-separated tables have no quotes.
    quoted = [tuple(f'"{c}"' if separator in c else c for c in row) for row in (header, *ROWS)]
    content = "\n".join(separator.join(row) for row in quoted)
    answered = client.post("/v1/annotate/file", content=content).json()
    assert [(d["id"], [p["text"] for p in d["passages"]]) for d in answered["documents"]] == [
        (id, [title, abstract]) for id, title, abstract in ROWS
    ]
    assert [[m[2] for m in found(d)] for d in answered["documents"]] == [
        ["Gout", "anemia", "heparin"],
        ["aspirin"],
    ]


def test_prose_with_commas_and_tabs_is_no_table(client: httpx.Client) -> None:
    for content in ("Title, abstract and text of gout.\nGout, anemia", "Gout\tis rare\nAnemia\tis not"):
        (document,) = client.post("/v1/annotate/file", content=content).json()["documents"]
        assert document["text"] == content


def test_the_name_of_a_file_tells_its_format_and_names_its_documents(
    client: httpx.Client, tmp_path: Path
) -> None:
    # No header: only the suffix tells this from text with tabs. The commands read the same.
    content = "Gout is rare .\t1\nNo anemia was seen .\t0\n"
    (tmp_path / "gad.tsv").write_text(content, encoding="utf-8")
    answered = client.post("/v1/annotate/file?name=C%3A/data/gad.tsv", content=content).json()["documents"]
    assert (
        [d["id"] for d in answered]
        == [d.id for d in biosmith.read(tmp_path / "gad.tsv")]
        == ["gad-1", "gad-2"]
    )
    (document,) = client.post("/v1/annotate/file?name=note.txt", content="Gout is rare.").json()["documents"]
    assert document["id"] == "note"


def test_formats_of_one_file_are_taken_as_the_commands_take_them(client: httpx.Client) -> None:
    from biosmith.text import formats

    readable = {name for name in formats.FORMATS if hasattr(formats.load_format(name), "read")}
    of_several_files = {n for n in readable if hasattr(formats.load_format(n), "COMPANIONS")}
    assert set(client.get("/v1/formats").json()["read"]) == readable - of_several_files - {"parquet"}
    conll = "Gout\tB-Disease\nis\tO\nrare\tO\n.\tO\n\nNo\tO\nanemia\tB-Disease\n.\tO\n"
    squad = json.dumps({"data": [{"title": "a", "paragraphs": [{"context": "Gout is rare.", "qas": []}]}]})
    for content, texts in ((conll, ["Gout is rare .", "No anemia ."]), (squad, ["Gout is rare."])):
        answered = client.post("/v1/annotate/file", content=content).json()["documents"]
        assert [d["text"] for d in answered] == texts


def test_forms_and_archives_are_refused_in_words(client: httpx.Client) -> None:
    answer = client.post("/v1/annotate/file", files={"file": ("a.txt", b"Gout is rare.")})
    assert answer.status_code == 415 and "--data-binary" in answer.json()["detail"]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a.txt", "Gout is rare.")
    unpacked = io.BytesIO()
    with tarfile.open(fileobj=unpacked, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("a.txt"), io.BytesIO(b""))
    for content in (made.getvalue(), unpacked.getvalue()):
        answer = client.post("/v1/annotate/file", content=content)
        assert answer.status_code == 422 and "archive" in answer.json()["detail"]


def test_a_batch_answers_every_line_with_a_line(client: httpx.Client) -> None:
    lines = [json.dumps({"id": str(i), "text": "Gout is rare. " * (i % 3)}) for i in range(150)]
    lines[10], lines[70], lines[71] = "{broken", "[]", '{"id": "x"}'
    answer = client.post("/v1/batch", content="\n".join(lines))
    answered = [json.loads(line) for line in answer.text.splitlines()]
    assert len(answered) == 150
    assert [i for i, d in enumerate(answered) if "error" in d] == [10, 70, 71]
    assert all(
        d["id"] == str(i) and len(d["mentions"]) == i % 3
        for i, d in enumerate(answered)
        if i not in (10, 70, 71)
    )


def test_a_line_that_fails_bears_its_id_and_one_without_gets_its_number(client: httpx.Client) -> None:
    # Clients find their documents by these.
    lines = ['{"id": "x"}', '{"id": 7, "text": 5}', '{"text": "Gout."}', '{"id": [], "text": "Gout."}', "[]"]
    answered = [json.loads(x) for x in client.post("/v1/batch", content="\n".join(lines)).text.splitlines()]
    assert [d["id"] for d in answered] == ["x", "7", "3", "4", "5"]
    assert ["error" in d for d in answered] == [True, True, False, True, True]
    assert answered[1]["error"].startswith("line 2 ")


def test_what_was_answered_can_be_converted(client: httpx.Client) -> None:
    documents = client.post("/v1/annotate", json={"documents": [{"id": "7", "abstract": TEXT}]}).json()[
        "documents"
    ]
    documents[0]["mentions"].pop()
    answer = client.post("/v1/convert?format=pubtator", json={"documents": documents})
    assert "7\t14\t20\tanemia\tDisease" in answer.text and "heparin\tChemical" not in answer.text


def test_a_mention_that_is_not_in_its_text_is_not_converted(client: httpx.Client) -> None:
    mention = {"start": 5, "end": 500, "text": "x", "type": "Disease", "score": None}
    document = {"id": "7", "text": TEXT, "mentions": [mention]}
    assert client.post("/v1/convert?format=pubtator", json={"documents": [document]}).status_code == 422


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
@pytest.mark.parametrize("format", ["html", "bioc-json", "jsonl"])
def test_scores_that_are_no_numbers_are_refused(client: httpx.Client, score: float, format: str) -> None:
    mention = {"start": 0, "end": 4, "text": "Gout", "type": "Disease", "score": score}
    content = json.dumps(
        {"documents": [{"id": "1", "text": "Gout.", "mentions": [mention]}]}
    )  # NaN, Infinity
    headers = {"content-type": "application/json"}
    answer = client.post(f"/v1/convert?format={format}", content=content, headers=headers)
    assert answer.status_code == 422 and "finite" in answer.text


def test_the_service_describes_itself(client: httpx.Client, tagger_folder: Path) -> None:
    (model,) = client.get("/v1/models").json()["models"]
    assert (model["name"], model["types"]) == ("diseases", ["Chemical", "Disease"])
    formats = client.get("/v1/formats").json()
    assert "medline" in formats["read"] and "bioc-xml" in formats["write"]
    assert client.get("/health").json()["status"] == "ok"
    paths = client.get("/openapi.json").json()["paths"]
    assert {
        "/v1/annotate",
        "/v1/annotate/file",
        "/v1/batch",
        "/v1/convert",
        "/v1/models",
        "/health",
        "/metrics",
    } <= set(paths)
    # Nothing that is said names a folder of this machine.
    assert str(tagger_folder.parent) not in client.get("/v1/models").text


def test_metrics_count_what_was_done(client: httpx.Client) -> None:
    def value(name: str) -> float:
        lines = [line for line in client.get("/metrics").text.splitlines() if line.startswith(name)]
        return float(lines[0].rpartition(" ")[2]) if lines else 0.0

    documents, mentions = value("biosmith_documents_total"), value("biosmith_mentions_total")
    answered = 'biosmith_requests_total{path="/v1/annotate",status="200"}'
    requests = value(answered)
    client.post("/v1/annotate", json={"documents": [{"text": TEXT}, {"text": TEXT}]})
    assert value("biosmith_documents_total") == documents + 2
    assert value("biosmith_mentions_total") == mentions + 4
    assert value(answered) == requests + 1


WRONG = {
    "not JSON": b"{broken",
    "another type": b"[1, 2]",
    "a number for a text": b'{"text": 7}',
    "nothing": b"{}",
    "both": b'{"text": "a", "documents": []}',
    "an unknown key": b'{"text": "a", "path": "/etc/passwd"}',
    "a document without text": b'{"documents": [{"id": "1"}]}',
    "a lone surrogate": b'{"text": "\\ud800"}',
    "not a number": b'{"text": NaN}',
    "bytes that are no UTF-8": b'{"text": "\xff\xfe"}',
    "a number of 10,000 digits": b'{"documents": [{"passages": [{"text": "a", "offset": '
    + b"9" * 10_000
    + b"}]}]}",
    "nested 100,000 deep": b"[" * 100_000,
    "empty": b"",
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_refused_with_a_reason(client: httpx.Client, what: str) -> None:
    answer = client.post("/v1/annotate", content=WRONG[what], headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422) and answer.json()["detail"]


def test_an_offset_far_away_takes_no_memory(client: httpx.Client) -> None:
    # A passage at two billion would be two gigabytes of spaces.
    document = {"passages": [{"text": "a", "offset": 0}, {"text": "b", "offset": 2_000_000_000}]}
    assert client.post("/v1/annotate", json={"documents": [document]}).status_code == 413
    bioc = {
        "documents": [
            {
                "id": "1",
                "passages": [{"offset": p["offset"], "text": p["text"]} for p in document["passages"]],
            }
        ]
    }
    answer = client.post("/v1/annotate/file?from=bioc-json", content=json.dumps(bioc))
    assert answer.status_code in (200, 413, 422) and len(answer.content) < 100_000


def test_entities_of_xml_are_not_expanded_and_nothing_is_read_from_this_machine(client: httpx.Client) -> None:
    bomb = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 9))
    for doctype, text in (
        (f'<!ENTITY e0 "boom">{bomb}', "&e8;"),
        ('<!ENTITY x SYSTEM "file:///etc/passwd">', "&x;"),
    ):
        xml = (
            f'<?xml version="1.0"?><!DOCTYPE collection [{doctype}]><collection><source/><date/><key/><document><id>1</id>'
            f"<passage><offset>0</offset><text>Gout {text}</text></passage></document></collection>"
        )
        answer = client.post("/v1/annotate/file?from=bioc-xml", content=xml)
        assert answer.status_code in (200, 422)
        assert "root:" not in answer.text and len(answer.content) < 10_000


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/page/page.js", "/leaderboard/"]
)
def test_no_other_file_is_served(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_other_formats_and_binary_content_are_refused(client: httpx.Client) -> None:
    assert client.post("/v1/annotate/file?from=parquet", content=b"PAR1").status_code == 422
    assert client.post("/v1/annotate/file", content=b"PAR1\0\0\0\0PAR1").status_code == 422
    assert client.post("/v1/annotate/file", content=b"").status_code == 422
    # Line ends as of old Macintosh: whatever a reader makes of its file, the service answers.
    assert client.post("/v1/annotate/file?from=csv", content=b"title,text\rGout,x\r").status_code in (
        200,
        422,
    )


def test_the_page_loads_nothing_from_elsewhere(client: httpx.Client) -> None:
    page = client.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    everything = page.text + client.get("/page.js").text + client.get("/page.css").text
    assert "https://" not in everything and "http://www.w3.org/2000/svg" in everything


@pytest.mark.parametrize("media", ["application/x-www-form-urlencoded", "text/plain; charset=utf-8", None])
@pytest.mark.parametrize("path", ["/v1/annotate", "/v1/convert?format=jsonl"])
def test_json_under_another_media_type_is_refused_in_words(
    client: httpx.Client, path: str, media: str | None
) -> None:
    # As `curl -d` sends it: what is wrong is not the object in the body.
    headers = {} if media is None else {"content-type": media}
    answer = client.post(path, content=b'{"text": "Gout is rare."}', headers=headers)
    assert answer.status_code == 415 and "Content-Type: application/json" in answer.json()["detail"]
