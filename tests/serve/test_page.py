"""The page in a real browser: text goes in, mentions and relations are drawn, filtered, walked through and saved."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(
    (p for name in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

# Nothing but the page may be loaded: the browser's own requests would fail on machines without a network.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-quic",
]  # fmt: skip

TEXT = "Gout is rare. Patients with anemia were given aspirin."
RELATED = {
    "documents": [
        {
            "id": "1",
            "text": "😀 <b>Gout</b> follows aspirin, not acute kidney injury of the kidney.",
            "passages": [],
            "mentions": [
                {"start": 5, "end": 9, "text": "Gout", "type": "Disease", "score": 0.9, "id": "T1", "ids": ["MESH:D006073"]},
                {"start": 22, "end": 29, "text": "aspirin", "type": "Chemical", "score": 0.4, "id": "T2"},
                {"start": 35, "end": 54, "text": "acute kidney injury", "type": "Disease", "score": 0.8, "id": "T3"},
                {"start": 41, "end": 47, "text": "kidney", "type": "Anatomy", "score": 0.7, "id": "T4"},
            ],
            "relations": [{"type": "induces", "arguments": [{"role": "", "target": "T2"}, {"role": "", "target": "T1"}], "score": 0.75}],
        }
    ],
    "failed": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, client: httpx.Client, tmp_path: Path) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    opened = context.new_page()
    opened.set_default_timeout(120_000)  # a busy machine is no fault of the page
    problems: list[str] = []
    elsewhere: list[str] = []
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    base = str(client.base_url)
    opened.on(
        "request", lambda r: None if r.url.startswith((base, "blob:", "data:")) else elsewhere.append(r.url)
    )
    opened.goto(base)
    yield opened
    context.close()
    assert not problems and not elsewhere


def annotate(page: Any, text: str = TEXT) -> None:
    page.fill("#text", text)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("article.doc")


def marks(page: Any) -> list[tuple[str, str]]:
    """Text and type of the mentions that are shown."""
    found = page.eval_on_selector_all(
        "mark[data-first]:not(.off)", "ms => ms.map(m => [m.textContent, m.dataset.l || '', m.dataset.m])"
    )
    return [(text, label) for text, label, _ in found]


def answer_with(page: Any, value: Any) -> None:
    page.route(
        "**/v1/annotate", lambda route: route.fulfill(body=json.dumps(value), content_type="application/json")
    )


def test_a_text_is_annotated_with_keys_alone(page: Any) -> None:
    page.wait_for_selector("#text:focus")  # without a click, once the page has opened
    page.keyboard.type(TEXT)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("mark")
    assert marks(page) == [("Gout", "Disease"), ("anemia", "Disease"), ("aspirin", "Chemical")]
    assert "3 mentions in 1 document" in page.inner_text("#status")
    page.keyboard.press("Escape")
    for expected in ("Gout", "anemia", "aspirin", "Gout"):
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.textContent") == expected
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.textContent") == "aspirin"
    assert page.is_visible("#tip") and "Chemical" in page.inner_text("#tip")
    page.keyboard.press("1")
    assert [type for _, type in marks(page)] == ["Chemical"]
    page.keyboard.press("0")
    assert len(marks(page)) == 3
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    page.keyboard.press("Escape")
    assert not page.is_visible("#keys")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "text"


def test_pointing_shows_score_identifier_and_relations(page: Any) -> None:
    answer_with(page, RELATED)
    annotate(page)
    page.hover("mark >> text=Gout")
    tip = page.inner_text("#tip")
    assert "Disease" in tip and "0.900" in tip and "MESH:D006073" in tip and "induces" in tip
    page.mouse.move(0, 0)
    assert not page.is_visible("#tip")


def test_nested_mentions_lie_in_each_other_and_nothing_of_a_text_becomes_markup(page: Any) -> None:
    answer_with(page, RELATED)
    annotate(page)
    assert page.inner_text(".t") == RELATED["documents"][0]["text"]  # type: ignore[index]
    assert page.inner_text("mark mark") == "kidney"
    assert page.query_selector(".t b") is None


def test_relations_are_drawn_and_can_be_left_out(page: Any) -> None:
    answer_with(page, RELATED)
    annotate(page)
    assert page.locator(".wires g").count() == 1 and page.locator(".wires text").text_content() == "induces"
    box, mark = (
        page.locator(".wires g path").first.bounding_box(),
        page.locator("mark[data-first]").first.bounding_box(),
    )
    assert box["y"] < mark["y"] and abs(box["x"] - mark["x"]) < mark["width"]
    page.uncheck("#arcs")
    assert page.locator(".wires g").count() == 0
    page.check("#arcs")
    page.locator(".chip", has_text="Chemical").click()  # without one of its sides a relation is not shown
    assert page.locator(".wires g").count() == 0


def test_types_and_scores_are_filtered_and_what_is_saved_is_what_is_shown(page: Any, tmp_path: Path) -> None:
    answer_with(page, RELATED)
    annotate(page)
    page.locator(".chip", has_text="Anatomy").click()
    page.evaluate(
        "() => { const s = document.getElementById('least'); s.value = 0.5; s.dispatchEvent(new Event('input')); }"
    )
    assert [text for text, _ in marks(page)] == ["Gout", "acute kidney injury"]
    with page.expect_download() as download:
        page.click("[data-format=pubtator]")
    download.value.save_as(tmp_path / "saved.pubtator")
    saved = (tmp_path / "saved.pubtator").read_text(encoding="utf-8")
    assert download.value.suggested_filename == "annotated.pubtator"
    assert "\tGout\tDisease" in saved and "aspirin\tChemical" not in saved and "Anatomy" not in saved
    with page.expect_download() as download:
        page.click("[data-format=bioc-json]")
    assert download.value.suggested_filename == "annotated.bioc.json"


def test_a_pubmed_file_is_opened_or_pasted(page: Any) -> None:
    file = Path(__file__).parents[2] / "examples" / "data" / "to-annotate.xml"
    page.set_input_files("#file", file)
    page.wait_for_selector("article.doc")
    opened = page.locator("article.doc").count()
    assert opened > 1
    page.click("#clear")
    assert page.locator("article.doc").count() == 0
    annotate(page, file.read_text(encoding="utf-8"))
    assert page.locator("article.doc").count() == opened


def test_a_table_that_is_opened_is_known_by_its_name(page: Any, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "gad & co.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.write("Gout is rare .\t1\nNo anemia was seen .\t0\n")  # no header
    page.set_input_files("#file", tmp_path / "gad & co.tsv.gz")
    page.wait_for_selector("article.doc")
    assert page.locator("article.doc").count() == 2


def test_errors_are_told(page: Any) -> None:
    page.click("#go")
    assert "no text" in page.inner_text("#status")
    page.fill("#text", "12345678")
    page.click("#go")
    assert "no network" in page.inner_text("#status")
    page.route(
        "**/v1/annotate", lambda route: route.fulfill(status=200, body="{}", content_type="application/json")
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    answer_with(page, RELATED)
    annotate(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if folder := os.environ.get("BIOSMITH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"page-{width}.png", full_page=True)


def test_the_theme_changes_and_is_kept(page: Any) -> None:
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert after != before
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after


def test_a_token_is_asked_for_and_a_leaderboard_is_linked(browser: Any, start: Any, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<title>scores</title>", encoding="utf-8")
    with start(token="sesame", leaderboard=tmp_path) as client:
        context = browser.new_context()
        page = context.new_page()
        page.goto(str(client.base_url))
        page.wait_for_selector("#ask[open]")
        page.fill("#token", "sesame")
        page.keyboard.press("Enter")
        page.wait_for_selector("#leaderboard:not([hidden])")
        annotate(page)
        assert len(marks(page)) == 3
        page.click("#leaderboard")
        page.wait_for_url("**/leaderboard/")
        assert page.title() == "scores"
        context.close()


def test_a_token_that_no_service_can_have_is_not_taken(browser: Any, start: Any) -> None:
    # No header can bear it: kept, it would make every request fail without asking for another.
    with start(token="open sesame") as client:
        page = browser.new_page()
        page.goto(str(client.base_url))
        page.wait_for_selector("#ask[open]")
        page.fill("#token", "open sésame’")
        page.keyboard.press("Enter")
        assert page.is_visible("#ask")
        page.fill("#token", "open sesame")
        page.keyboard.press("Enter")
        annotate(page)
        assert len(marks(page)) == 3
        page.close()


def test_a_browser_that_keeps_nothing_works_as_long_as_the_page_is_open(browser: Any, start: Any) -> None:
    # With cookies blocked, already to look at the storage is an error.
    blocked = "for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, "
    blocked += (
        "{ get() { throw new DOMException('Access is denied for this document.', 'SecurityError'); } })"
    )
    with start(token="sesame") as client:
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.add_init_script(blocked)
        page.goto(str(client.base_url))
        page.wait_for_selector("#ask[open]")
        page.fill("#token", "sesame")
        page.keyboard.press("Enter")
        page.wait_for_selector("#models:not(:empty)", state="attached")
        annotate(page)
        assert len(marks(page)) == 3
        page.keyboard.press("Escape")
        page.keyboard.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") in ("light", "dark")
        assert problems == []
        page.close()


def test_an_answer_that_comes_after_a_later_one_or_after_clearing_is_not_shown(page: Any) -> None:
    # A long text may be answered after a short one that was sent later: it would stand beside the other's text.
    waiting: list[Any] = []
    page.route("**/v1/annotate", lambda route: waiting.append(route))

    def answer(route: Any, text: str) -> None:
        document = {"id": "1", "text": text, "passages": [], "mentions": [], "relations": []}
        body = json.dumps({"documents": [document], "failed": []})
        with page.expect_response("**/v1/annotate"):
            route.fulfill(body=body, content_type="application/json")
        page.wait_for_timeout(100)

    def send(text: str) -> None:
        with page.expect_request("**/v1/annotate"):
            page.fill("#text", text)
            page.keyboard.press("Control+Enter")

    send("first")
    send("second")
    answer(waiting[1], "second")
    answer(waiting[0], "first")
    assert page.inner_text("article.doc .text") == "second" and page.is_enabled("#go")
    send("third")
    page.click("#clear")
    answer(waiting[2], "third")
    assert page.query_selector("article.doc") is None and page.is_enabled("#go")
    assert page.inner_text("#status") == ""
