"""XML is read without trusting it, and in constant memory."""

from __future__ import annotations

import io
import threading
import tracemalloc
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import biosmith
from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text import xml
from biosmith.text.xml import XmlSource, children, elements, records, root_name

MEDLINE = "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>1</PMID><Article><ArticleTitle>{}</ArticleTitle></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>"
JATS = "<article><front><article-meta><title-group><article-title>{}</article-title></title-group></article-meta></front></article>"
BODIES = pytest.mark.parametrize("body", [MEDLINE, JATS], ids=["medline", "jats"])


def read(tmp_path: Path, xml: str) -> tuple[list[biosmith.Document], Rejects]:
    (tmp_path / "x.xml").write_text(xml, encoding="utf-8")
    rejects = Rejects()
    return list(biosmith.read(tmp_path / "x.xml", rejects=rejects)), rejects


def laughs(levels: int) -> str:
    entities = (f'<!ENTITY l{n} "{"".join([f"&l{n - 1};"] * 10)}">' for n in range(1, levels))
    return f'<!DOCTYPE x [<!ENTITY l0 "lol">{"".join(entities)}]>'


@BODIES
def test_entities_of_the_file_are_not_expanded(tmp_path: Path, body: str) -> None:
    documents, _ = read(tmp_path, laughs(3) + body.format("ha &l2; ha"))
    assert [d.text for d in documents] == ["ha &l2; ha"]


@BODIES
def test_a_billion_laughs_are_refused_in_no_time_and_no_memory(tmp_path: Path, body: str) -> None:
    documents, rejects = read(tmp_path, laughs(10) + body.format("ha &l9; ha"))
    assert documents == []
    assert "amplification" in rejects.items[0]["reason"]


@BODIES
def test_external_entities_are_not_read(tmp_path: Path, body: str) -> None:
    (tmp_path / "secret").write_text("the secret", encoding="utf-8")
    doctype = f'<!DOCTYPE x [<!ENTITY xxe SYSTEM "{(tmp_path / "secret").as_uri()}">]>'
    documents, _ = read(tmp_path, doctype + body.format("ha &xxe; ha"))
    assert [d.text for d in documents] == ["ha &xxe; ha"]


@BODIES
def test_a_dtd_beside_the_file_is_not_loaded(tmp_path: Path, body: str) -> None:
    # If it were, the default attribute and the entity of the DTD would show.
    (tmp_path / "x.dtd").write_text('<!ENTITY secret "the secret">', encoding="utf-8")
    doctype = f'<!DOCTYPE x SYSTEM "{(tmp_path / "x.dtd").as_uri()}">'
    documents, _ = read(tmp_path, doctype + body.format("ha &secret; ha"))
    assert [d.text for d in documents] == ["ha &secret; ha"]


@BODIES
def test_nothing_is_fetched_from_the_network(tmp_path: Path, body: str) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        doctype = f'<!DOCTYPE x SYSTEM "{place}/x.dtd" [<!ENTITY e SYSTEM "{place}/e"><!ENTITY % p SYSTEM "{place}/p"> %p;]>'
        read(tmp_path, doctype + body.format("ha &e; ha"))
        server.shutdown()
    assert asked == []


@BODIES
def test_xml_nested_beyond_the_limit_is_refused_and_not_crashed_on(tmp_path: Path, body: str) -> None:
    documents, rejects = read(tmp_path, body.format("<i>" * 100_000 + "x" + "</i>" * 100_000))
    assert documents == []
    assert "broken XML" in rejects.items[0]["reason"]


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"<a/>", "a"),
        (b"\n <?xml version='1.0'?>\n<!-- <b> --><!DOCTYPE a [<!ENTITY x '>'>]><a b='c'>", "a"),
        (b'<!DOCTYPE a PUBLIC "-//X//Y//EN" "http://x/y.dtd"><n:a xmlns:n="u">', "a"),
        ("<a/>".encode("utf-16"), "a"),
        ("<?xml version='1.0'?><a/>".encode("utf-16-le"), "a"),
        (b"\xef\xbb\xbf<a/>", "a"),
        (b"{}", None),
        (b"", None),
        (b"\x00\x01<a/>", None),
        (b"a <a/>", None),
    ],
)
def test_the_root_is_found_by_the_first_bytes(head: bytes, name: str | None) -> None:
    assert root_name(head) == name


def test_children_are_the_same_for_any_size_of_pieces() -> None:
    # Pieces that end within a tag, within a text, and between two children.
    xml = b"<r><a>one</a><b/>tail<!-- c --><a>t<i>w</i>o</a></r>"

    for size in range(1, len(xml) + 1):
        found = [(e.tag, "".join(e.itertext())) for e in children(XmlSource(Dribble(xml, size)), "x")]
        assert found == [("a", "one"), ("b", ""), ("a", "two")]


class Dribble(io.RawIOBase):
    """Gives a few bytes at a time."""

    def __init__(self, rest: bytes, size: int) -> None:
        self.rest, self.size = rest, size

    def read(self, size: int = -1) -> bytes:
        piece, self.rest = self.rest[: self.size], self.rest[self.size :]
        return piece


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("bad", [b"\xff", b"\x00", b"<", b"&", b"<x>", b"</r>", b"<!--"])
def test_what_is_broken_costs_its_own_record_only(bad: bytes, flat: bool) -> None:
    # Wherever it stands: within a text, within a tag, between two records, in what is read next or before.
    parts = [b"<r>", *(b"<rec n='%d'>t<i>w</i></rec>" % n for n in range(6)), b"</r>"]
    for size in (1, 7, 40, 10_000):
        for part in range(1, 7):
            for place in range(len(parts[part]) + 1):
                damaged = [*parts]
                damaged[part] = parts[part][:place] + bad + parts[part][place:]
                whole = {str(n) for n in range(6)} - {str(part - 1)}
                told: list[BadInput] = []
                source = XmlSource(Dribble(b"\n".join(damaged), size))
                found = [e.get("n", "") for e in records(source, ("rec",), "x", told.append, flat=flat)]
                assert found == sorted(set(found)) and whole <= set(found)
                assert told or len(found) == 6
                assert len(told) <= 2


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("prefix", ["", "b:", "x" * 32 + ":"])
def test_prefixed_records_and_those_in_utf_16_are_gone_on_after_too(
    prefix: str, encoding: str, flat: bool
) -> None:
    space = f" xmlns:{prefix[:-1]}='http://x'" if prefix else ""
    declared = "<?xml version='1.0' encoding='utf-16'?>" if encoding != "utf-8" else "<?xml version='1.0'?>"
    bodies = ["t\u03b1", "&", "t\u00e9\U0001f9ec", "<i>", "t", "\ud800", "t", "</r>", "t"]
    parts = [f"<{prefix}rec n='{n}'>{body}</{prefix}rec>" for n, body in enumerate(bodies)]
    xml = "\n".join([f"{declared}<{prefix}r{space}>", *parts, f"</{prefix}r>"])
    for size in (1, 7, 10_000):
        told: list[BadInput] = []
        source = XmlSource(Dribble(xml.encode(encoding, "surrogatepass"), size))
        assert source.root == "r"
        found = [
            (e.get("n"), e.text) for e in records(source, ("rec",), "x", told.append, flat=flat) if e.text
        ]
        whole = [(str(n), body) for n, body in enumerate(bodies) if body.startswith("t")]
        assert [one for one in found if one in whole] == whole
        assert 4 <= len(told) <= 6 and all(error.reason.startswith("broken XML") for error in told)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("bad", [b"&", b"a &lt b", b"<", b"\xff", b"<i>"])
def test_a_broken_place_is_told_with_its_line(bad: bytes, flat: bool) -> None:
    lines = [b"<r>", *(b"<rec>%d</rec>" % n for n in range(3000)), b"</r>"]
    for number in (10, 1500, 1501, 2990):
        lines[number - 1] = b"<rec>%s</rec>" % bad
    told: list[str] = []
    source = XmlSource(io.BytesIO(b"\n".join(lines)))
    found = list(records(source, ("rec",), "x", lambda e: told.append(str(e.value)), flat=flat))
    assert len(found) == 2996
    assert [value.rpartition(" ")[2] for value in told] == ["10", "1500", "1501", "2990"]


def test_a_bare_ampersand_is_found_where_it_stands_and_not_at_the_end_of_the_file() -> None:
    # lxml reads on silently after it: the whole rest of a file would be held in memory, once for each.
    rest = [b"<rec>%d</rec>" % n for n in range(100_000)]
    source = Dribble(b"<r><rec>&</rec>" + b"".join(rest) + b"</r>", 1 << 12)
    whole = len(source.rest)
    found = records(XmlSource(source), ("rec",), "x", lambda error: None, flat=True)
    assert next(found).text == "0"
    assert len(source.rest) > whole - (1 << 16)


def test_a_broken_record_without_an_end_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "LONGEST_RECORD", 1 << 20)
    text = b"<r><rec>&" + b"x y z " * (8 << 20) + b"</rec><rec>2</rec></r>"
    told: list[BadInput] = []
    tracemalloc.start()
    found = [e.text for e in records(XmlSource(io.BytesIO(text)), ("rec",), "x", told.append, flat=True)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == ["2"]
    assert len(told) == 1
    assert most < 8 << 20  # of 48 MB


@BODIES
def test_entities_of_no_dtd_are_kept_where_there_is_no_doctype_too(tmp_path: Path, body: str) -> None:
    documents, rejects = read(tmp_path, "<?xml version='1.0'?><!-- c -->" + body.format("TNF-&alpha; &nope;"))
    assert [d.text for d in documents] == ["TNF-α &nope;"]
    assert not rejects.count


@pytest.mark.parametrize("cut", range(3, 52))
def test_records_before_any_cut_are_complete_and_the_cut_is_told(cut: int) -> None:
    xml = b"<r><a>one</a> <b/> tail<!-- c --><a>t<i>w</i>o</a> </r>"[:cut]
    told: list[BadInput] = []
    source = XmlSource(io.BytesIO(xml))
    found = [e.tag for e in records(source, ("a", "b"), "x", told.append, flat=True)]
    ends = [end for end in (b"one</a>", b"<b/>", b"</i>o</a>") if end in xml]
    assert found == ["a", "b", "a"][: len(ends)]
    assert [error.reason.startswith("broken XML") for error in told] == [True]


def test_files_put_end_to_end_are_read_to_the_last_record() -> None:
    # As `cat a.xml.gz b.xml.gz` makes them.
    one = b"<?xml version='1.0'?><!DOCTYPE r><r><a>1</a><a>2</a></r>"
    told: list[BadInput] = []
    found = [e.text for e in records(XmlSource(io.BytesIO(one * 3)), ("a",), "x", told.append, flat=True)]
    assert found == ["1", "2"] * 3
    assert len(told) == 2


def test_elements_inside_one_another_are_given_once_and_memory_is_freed() -> None:
    xml = b"<r><h/><x><a><b/></a></x><b/></r>"
    assert [e.tag for e in elements(io.BytesIO(xml), ("{*}a", "{*}b"), "x")] == ["a", "b"]
    seen = []
    for element in elements(io.BytesIO(xml), ("a", "b"), "x"):
        seen.append(element.tag)
        assert element.getroottree().getroot().find("h") is not None or len(seen) > 1
    assert seen == ["a", "b"]


def test_one_way_to_break_is_one_reason_and_the_value_says_where() -> None:
    # A folder of many broken files would have a reason for each of them in the manifest otherwise.
    broken = [b"<a>" + b"\n" * lines + b"<b></c></a>" for lines in (1, 5)]
    found = []
    for content in broken:
        with pytest.raises(BadInput) as caught:
            list(elements(io.BytesIO(content), ("b",), "x.xml"))
        found.append((caught.value.reason, str(caught.value.value).rpartition(" ")[2]))
    assert found == [("broken XML: Opening and ending tag mismatch", line) for line in ("2", "6")]
