"""The page: what is drawn, that nothing from a document becomes markup, and that it works in a browser."""

from __future__ import annotations

import html.parser
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from biosmith.errors import UsageError
from biosmith.text.document import Argument, Document, Mention, Passage, Relation, fragment_text
from biosmith.text.formats import html as page
from biosmith.text.formats import write
from biosmith.text.formats.matching import match_mentions

TEXT = "Breast and ovarian cancer in BRCA1 carriers"


def mention(start: int, end: int, type: str = "Disease", **more: object) -> Mention:
    fragments = more.pop("fragments", ((start, end),))
    return Mention(start, end, fragment_text(TEXT, fragments), type, fragments=fragments, **more)  # type: ignore[arg-type]


def document(*mentions: Mention, relations: tuple[Relation, ...] = ()) -> Document:
    return Document.build("7", [Passage("title", TEXT)], mentions, relations)


class Marks(html.parser.HTMLParser):
    """The marks of a page: (attributes, text inside), and whether all of them are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.marks: list[tuple[dict[str, str | None], str]] = []
        self.passages: list[str] = []
        self._open: list[int] = []
        self._inside = False
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "mark":
            self._open.append(len(self.marks))
            self.marks.append((dict(attrs), ""))
        elif tag == "p" and ("class", "t") in attrs:
            self._inside = True
            self.passages.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "mark":
            self._open.pop()
        elif tag == "p":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.passages[-1] += data
        for index in self._open:
            attributes, text = self.marks[index]
            self.marks[index] = (attributes, text + data)


def drawn(*mentions: Mention) -> list[tuple[str, str]]:
    """(name of the mention, text) of each piece, in order of the page."""
    return [(str(a["data-m"]), text) for a, text in Marks(page.render(document(*mentions))).marks]


def test_nested_mentions_lie_in_each_other() -> None:
    assert drawn(mention(0, 25), mention(11, 25)) == [
        ("0", "Breast and ovarian cancer"),
        ("1", "ovarian cancer"),
    ]


def test_a_crossing_mention_goes_on_as_a_second_piece() -> None:
    # 0-18 "Breast and ovarian" and 11-25 "ovarian cancer" cross: the second is cut where the first ends.
    assert drawn(mention(0, 18), mention(11, 25)) == [
        ("0", "Breast and ovarian"),
        ("1", "ovarian"),
        ("1", " cancer"),
    ]


def test_all_parts_of_a_discontinuous_mention_have_one_name() -> None:
    assert drawn(mention(0, 25, fragments=((0, 6), (19, 25)))) == [("0", "Breast"), ("0", "cancer")]


def test_the_text_is_complete_whatever_overlaps() -> None:
    mentions = [mention(start, end) for start in range(0, 20, 3) for end in range(start + 1, 40, 5)]
    assert Marks(page.render(document(*mentions))).passages == [TEXT]


def test_type_score_and_identifiers_are_on_the_mark() -> None:
    text = page.render(document(mention(29, 34, "Gene", score=0.9312, ids=("672", "x"))))
    ((attributes, _),) = Marks(text).marks
    assert attributes["data-l"] == attributes["data-t"] == "Gene"
    assert (attributes["data-s"], attributes["data-i"]) == ("0.931", "672, x")


def test_everything_from_a_document_is_escaped() -> None:
    evil = '<script>alert(1)</script>" onmouseover="x'
    passage = Passage(evil, evil, label=evil)
    found = Mention(0, 8, evil[:8], evil, 0.5, (evil,), id=evil)
    relation = Relation(evil, (Argument(evil, evil),), infons={evil: evil})
    text = page.render(Document.build(evil, [passage], [found], [relation]), title=evil)
    assert text.count("<script>") == 1  # the page's own
    assert 'onmouseover="x' not in text
    assert Marks(text).passages == [evil]


def test_control_characters_are_drawn_and_cannot_turn_the_page_around() -> None:
    text = page.render(Document.build("1", [Passage("title", "a\x00b\u202ec")]))
    assert "a␀b⇄c" in text
    assert "\x00" not in text
    assert "\u202e" not in text


def test_the_page_loads_nothing_and_knows_both_schemes() -> None:
    text = page.render(document(mention(0, 6)))
    assert "http" not in text
    assert "src=" not in text
    assert "prefers-color-scheme: dark" in text


def test_gold_against_predicted_counts_every_kind_of_error(tmp_path: Path) -> None:
    # right: BRCA1; boundary: "cancer" for "ovarian cancer"; type: "Breast" as Gene; spurious: "carriers"; missed: "in".
    predicted = document(
        mention(29, 34, "Gene"), mention(19, 25), mention(0, 6, "Gene"), mention(35, 43, "Species")
    )
    gold = document(mention(29, 34, "Gene"), mention(11, 25), mention(0, 6), mention(26, 28))
    report = page.write([predicted], tmp_path / "x.html", [gold])
    assert report.statuses == {"right": 1, "boundary": 1, "type": 1, "spurious": 1, "missed": 1}
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    # One of four predicted and one of four expected are right.
    assert "P 25.0 · R 25.0 · F1 25.0" in text
    labels = {str(a.get("data-l")) for a, _ in Marks(text).marks}
    assert labels == {
        "✓ Gene",
        "↔ Disease",
        "gold Disease",
        "~ Gene (gold: Disease)",
        "+ Species",
        "− Disease",
    }


def test_documents_are_paired_by_id_and_those_without_a_partner_are_told(tmp_path: Path) -> None:
    other = Document.build("7", [Passage("title", "another text")])
    report = page.write([document(), other, Document.build("8", [])], tmp_path / "x.html", [document()])
    assert report.uncompared == 2


def test_exact_pairs_come_before_partial_ones() -> None:
    # "ovarian cancer" is right although "Breast and ovarian cancer" overlaps it too.
    matches = match_mentions([mention(11, 25)], [mention(0, 25), mention(11, 25)])
    assert [(m.status, m.gold and m.gold.start) for m in matches] == [("missed", 0), ("right", 11)]


def test_gold_documents_that_are_not_here_are_told_beside_the_scores(tmp_path: Path) -> None:
    # What was found in one of three documents may be all right, and two thirds of what is to be found missing.
    golds = [Document.build(name, [Passage("title", TEXT)], [mention(0, 6)]) for name in ("7", "8", "9")]
    other = Document.build("1", [Passage("title", TEXT)])
    report = page.write([document(mention(0, 6)), other], tmp_path / "x.html", golds)
    assert (report.statuses, report.uncompared, report.absent) == ({"right": 1}, 1, 2)
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    told = "F1 100.0; 1 document without gold of the same id and text; 2 gold documents not here"
    assert told in text
    assert "not here" not in page.render(document(mention(0, 6)), golds[0])


@pytest.mark.parametrize(
    ("score", "step"),
    [(0.0, 0), (0.949, 18), (1.0, 19), (7.0, 19), (float("inf"), 19), (-1.0, 0), (float("nan"), 0)],
)
def test_every_score_has_a_step_of_the_filter(tmp_path: Path, score: float, step: int) -> None:
    write([document(mention(0, 6, score=score))], tmp_path / "page.html")
    ((attributes, _),) = Marks((tmp_path / "page.html").read_text(encoding="utf-8")).marks
    assert str(attributes["class"]).split()[-1] == f"p{step}"


def test_relations_name_their_mentions() -> None:
    relation = Relation("Association", (Argument("a", "T1"), Argument("b", "672")), 0.5)
    text = page.render(
        document(mention(0, 6, id="T1"), mention(29, 34, "Gene", ids=("672",)), relations=(relation,))
    )
    assert "a: Breast → b: BRCA1 (672)" in text


def test_an_empty_page_says_so(tmp_path: Path) -> None:
    write([], tmp_path / "x.html")
    assert "No documents." in (tmp_path / "x.html").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_filters_hide_mentions_in_a_browser(tmp_path: Path) -> None:
    # The script clicks the chip of Gene, moves the least score to 0.5 and points at a mention; the page then shows
    # which marks still have a border, and the tip.
    path = tmp_path / "x.html"
    write(
        [document(mention(0, 6, score=0.2), mention(11, 25, score=0.9), mention(29, 34, "Gene", score=0.9))],
        path,
    )
    script = """<script>
      document.querySelectorAll('.chip')[1].click();
      const least = document.getElementById('least'); least.value = 10; least.dispatchEvent(new Event('input'));
      const marks = [...document.querySelectorAll('mark')];
      marks[1].dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));
      document.title = marks.map(m => getComputedStyle(m).borderTopColor === 'rgba(0, 0, 0, 0)' ? 0 : 1).join('')
        + ' ' + document.getElementById('tip').innerText.replace(/\\s+/g, ' ');
    </script></body>"""
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", script), encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", path.as_uri()]
    home = os.environ | {"HOME": str(tmp_path)}  # the browser wants one that it can write to
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=home).stdout
    assert "<title>010 Disease score 0.900</title>" in shown


@pytest.mark.parametrize("wrong", ["Aspirin helps.", ["Aspirin helps."], None])
def test_what_are_no_documents_is_refused_by_what_to_give_instead(wrong: object) -> None:
    with pytest.raises(UsageError, match="render takes a document or several"):
        page.render(wrong)  # type: ignore[arg-type]
    if wrong is not None:
        with pytest.raises(UsageError, match="render takes a document or several"):
            page.render(document(), wrong)  # type: ignore[arg-type]
