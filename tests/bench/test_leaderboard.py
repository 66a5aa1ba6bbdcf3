"""The leaderboard: what is on its pages, and how they behave in a browser."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from biosmith.bench.jobs import load_split
from biosmith.bench.leaderboard import build_site
from biosmith.bench.leaderboard.anchors import ANCHORS, SOURCES
from biosmith.bench.leaderboard.boards import gathered, make_boards, name_devices
from biosmith.bench.leaderboard.details import make_detail
from biosmith.bench.leaderboard.pictures import Point, scatter
from biosmith.bench.mock import FOLDER
from biosmith.bench.results import group_scores, load_results
from biosmith.bench.submission import pack
from biosmith.bench.suites import SUITES, find_suite
from biosmith.errors import UsageError


class Rows(HTMLParser):
    """The tables of a page: for each row the kind of its body and the text of its cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.kind, self.rows, self.cell = "", [], False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tbody":
            self.kind = dict(attrs).get("data-kind") or ""
        elif tag == "tr":
            self.rows.append((self.kind, []))
        elif tag in ("td", "th"):
            self.rows[-1][1].append("")
            self.cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.cell = False

    def handle_data(self, data: str) -> None:
        if self.cell:
            self.rows[-1][1][-1] += data.strip() + " "


@pytest.fixture(scope="module")
def site(mock_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a results folder and a submission, with BLURB's board beside the mock one."""
    folder = tmp_path_factory.mktemp("site")
    pack(mock_results / "of-poor", folder / "poor.zip")
    built = build_site([mock_results / "of-good", folder / "poor.zip"], folder / "site", FOLDER)
    assert built["models"] == 2 and built["datasets"] == 9 and built["suites"] == ["mock"]
    return folder / "site"


def read(site: Path, name: str) -> str:
    return (site / name).read_text(encoding="utf-8")


def test_scores_are_shown_with_spread_and_interval_and_the_best_is_marked(
    site: Path, mock_results: Path
) -> None:
    rows = [cells for kind, cells in Rows(read(site, "index.html")).rows if kind == "measured"]
    ner = load_results(mock_results / "of-good").models[0].tasks["mock-ner", ""]
    mean, (low, high) = ner.summary(), ner.interval()
    shown = next(
        c
        for row in rows
        for c in row[1:]
        if f"±{100 * (mean.sd or 0):.2f}" in c and row[0].startswith("good")
    )
    assert f"{100 * mean.mean:.2f}" in shown and "★" in shown
    assert f"{100 * low:.1f} – {100 * high:.1f}" in shown
    assert not any("★" in cell for row in rows if row[0].startswith("poor") for cell in row)


def test_nothing_is_loaded_from_elsewhere_and_every_link_leads_somewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    # One a suite, dataset and model, and a viewer for each tagger.
    assert len(pages) == 1 + 9 + 2 + 4
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r'(?:href|src)="([^"]+)"', text):
            assert not re.match(r"[a-z]+:|//", target), target
            file, _, anchor = target.partition("#")
            path = (page.parent / file).resolve() if file else page
            assert path.is_file(), (page, target)
            assert not anchor or f'id="{anchor}"' in path.read_text(encoding="utf-8"), (page, target)
        assert "@import" not in text and "url(" not in text.replace("url(#", "")


def test_a_page_of_a_dataset_has_seeds_errors_and_gold_against_predicted(site: Path) -> None:
    page = read(site, "dataset/mock-ner.html")
    for words in ("What becomes of mentions", "By length in words", "Abbreviations", "boundary", "spurious"):
        assert words in page
    assert page.count("<svg") == 1 and 'role="img"' in page and "Means: good:" in page
    viewer = read(site, "view/good--mock-ner.html")
    assert "s-right" in viewer and "sentence 1" in viewer
    # The viewer counts what is on it; without those words its F1 would be taken for the F1 of the split.
    shown, whole = re.findall(r"· ([0-9]+) of ([0-9]+) sentences, chosen for errors</h1>", viewer)[0]
    assert int(shown) == viewer.count("<article") < int(whole) == len(load_split("mock-ner", FOLDER, "test"))
    relations = read(site, "dataset/mock-relations.html")
    assert "Gold (rows) against predicted (columns)" in relations and "✗" in relations
    assert "fingerprint" in relations


def test_the_confusion_adds_up_to_the_test_split(mock_results: Path) -> None:
    task = load_results(mock_results / "of-poor").models[0].tasks["mock-relations", ""]
    detail = make_detail(task, None)
    assert detail.labels == ("false", "activates", "inhibits")
    assert sum(map(sum, detail.confusion)) == 10
    right = sum(detail.confusion[i][i] for i in range(3))
    assert right == sum(e.right for e in detail.examples)
    # Of three seeds the one nearest to the mean is shown.
    mean = task.summary().mean
    assert abs(detail.run.value - mean) == min(abs(run.value - mean) for run in task.runs)


def test_reported_figures_are_never_mixed_with_measured_ones_and_other_protocols_say_why() -> None:
    # A board needs something measured; here its rows are looked at without a site.
    reported = {(a.model, a.source): a for a in ANCHORS}
    assert len(reported) == len(ANCHORS), "a model of one source must not come twice"
    for anchor in ANCHORS:
        assert anchor.source in SOURCES
        assert set(anchor.others) <= set(anchor.scores) and all(anchor.others.values())
    known = {n for s in SUITES.values() for names in s.groups.values() for n in names}
    assert {name for a in ANCHORS for name in a.scores} <= known


def test_anchors_are_typed_off_right() -> None:
    # A BLURB score printed by a source must follow from the figures beside it. LinkBERT's own table rounds twice.
    for anchor in ANCHORS:
        if anchor.blurb is None:
            continue
        score = group_scores(find_suite("blurb"), anchor.scores)[1]
        assert score == pytest.approx(anchor.blurb, abs=0.02), anchor.model
    # Bioformer's averages: NER of 8L is 85.32, of 16L 85.65 (Fang et al., 2023, Table 3).
    names = find_suite("bioformer15").groups["NER"]
    for model, average in (
        ("Bioformer 8L", 85.32),
        ("Bioformer 16L", 85.65),
        ("PubMedBERT (full text)", 85.72),
    ):
        scores = next(a.scores for a in ANCHORS if a.model == model)
        assert sum(scores[n] for n in names) / 8 == pytest.approx(average, abs=0.02)


def test_a_site_is_made_anew_and_other_folders_are_not_touched(mock_results: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    build_site([mock_results / "of-good"], out)
    (out / "old.html").write_text("", encoding="utf-8")
    build_site([mock_results / "of-good", mock_results / "of-good"], out)
    assert not (out / "old.html").exists()
    # The same name twice: the second is told apart.
    assert "good (of-good)" in read(out, "index.html")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="is no leaderboard"):
        build_site([mock_results / "of-good"], tmp_path / "thesis")
    with pytest.raises(UsageError, match="does not exist"):
        build_site([tmp_path / "nothing"], tmp_path / "new")
    # A slip in --data would else be a site without errors, as if none had been given.
    with pytest.raises(UsageError, match="nowhere is no folder"):
        build_site([mock_results / "of-good"], tmp_path / "new", tmp_path / "nowhere")
    assert not (tmp_path / "new").exists()


def test_names_of_models_are_text_and_never_markup(mock_results: Path, tmp_path: Path) -> None:
    shutil.copytree(mock_results / "of-good", tmp_path / "results")
    path = tmp_path / "results" / "good" / "model.json"
    path.write_text(
        path.read_text("utf-8").replace('"name": "good"', '"name": "<b>x</b>&"'), encoding="utf-8"
    )
    build_site([tmp_path / "results"], tmp_path / "site")
    page = read(tmp_path / "site", "index.html")
    assert "<b>x</b>&" not in page and "&lt;b&gt;x" in page


def change_records(folder: Path, dataset: str, **changed: Any) -> None:
    for path in (folder / "good" / dataset).glob("seed-*.json"):
        if "." not in path.stem:
            record = json.loads(path.read_text("utf-8"))
            path.write_text(json.dumps({**record, **changed}), encoding="utf-8")


def test_scores_on_other_files_are_grey_and_never_the_best(mock_results: Path, tmp_path: Path) -> None:
    shutil.copytree(mock_results / "of-good", tmp_path / "other")
    change_records(tmp_path / "other", "mock-ner", protocol={"files": {"test.tsv": "0" * 64}})
    folders = [mock_results / "of-poor", mock_results / "of-poor", tmp_path / "other"]
    with gathered(folders) as (models, first):
        (board,) = make_boards(models, first)
    (line,) = (line for line in board.measured if line.model == "good")
    poor = next(line for line in board.measured if line.model == "poor")
    # Its score is the higher one; it is not compared, and neither group nor suite is averaged with it.
    assert line.cells["mock-ner"].value > poor.cells["mock-ner"].value
    assert "other files" in line.cells["mock-ner"].other and not line.cells["mock-ner"].best
    assert poor.cells["mock-ner"].best and line.score is None and "NER" not in line.groups
    assert line.cells["mock-classes"].other == ""
    build_site(folders, tmp_path / "site")
    assert "scored on other files than most models here" in read(tmp_path / "site", "index.html")


def test_predictions_that_do_not_fit_the_data_do_not_stop_the_site(
    mock_results: Path, tmp_path: Path
) -> None:
    shutil.copytree(mock_results / "of-good", tmp_path / "results")
    for path in (tmp_path / "results" / "good" / "mock-ner").glob("*.predictions.jsonl"):
        path.write_text('{"id": "0", "prediction": ["O"]}\n', encoding="utf-8")
    task = load_results(tmp_path / "results").models[0].tasks["mock-ner", ""]
    assert "do not fit the data" in make_detail(task, None).reason


def test_a_site_that_cannot_be_made_leaves_the_old_one(
    mock_results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_site([mock_results / "of-good"], tmp_path / "site")

    def broken(*arguments: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("biosmith.bench.leaderboard.make_detail", broken)
    with pytest.raises(OSError, match="no space"):
        build_site([mock_results / "of-good"], tmp_path / "site")
    assert "good" in read(tmp_path / "site", "index.html")
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_boards_average_only_complete_groups(mock_results: Path) -> None:
    with gathered([mock_results / "of-good"]) as (models, first):
        (board,) = make_boards(models, first)
    line = board.measured[0]
    assert (
        line.score is not None and line.parameters == 15 / 1e6 and line.speed is not None and line.speed > 0
    )
    pair = (line.cells["mock-documents"].value + line.cells["mock-classes"].value) / 2
    assert line.groups["Document classification"] == pytest.approx(pair)


def test_pictures_take_the_colour_of_the_page_and_can_be_read_out() -> None:
    svg = scatter([Point('a & "b"', 10, 80), Point("c", 200, 90)], "speed", "score", 'A & "b" <c>')
    assert "currentColor" in svg and "#000000" not in svg
    assert 'aria-label="A &amp; &quot;b&quot; &lt;c>"' in svg
    # The same picture has the same bytes.
    assert svg == scatter([Point('a & "b"', 10, 80), Point("c", 200, 90)], "speed", "score", 'A & "b" <c>')


def test_a_card_is_named_once_however_many_runs_shared_it() -> None:
    assert name_devices(["H100, 10 runs at once", "H100, 8 runs at once", "H100, 8 runs at once"]) == (
        "H100, 8 or 10 runs at once"
    )
    assert name_devices(["EPYC", "H100, 6 runs at once", "H100"]) == "EPYC; H100, 1 or 6 runs at once"
    # A card's own name may have a comma, and old runs have no name at all.
    assert name_devices(["", "Xeon, 8 cores"]) == "Xeon, 8 cores"


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless browser; tests that need it skip where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    home = os.environ | {"HOME": str(tmp_path_factory.mktemp("home"))}
    with playwright.sync_playwright() as p:
        launched = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], env=home)
        yield launched
        launched.close()


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_their_screen_and_raise_no_error(
    browser: Any, site: Path, width: int, height: int, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    for name in ("index.html", "dataset/mock-ner.html", "dataset/mock-relations.html", "model/good.html"):
        page.goto((site / name).as_uri())
        # Tables scroll inside themselves; the page never does so sideways.
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    assert errors == []
    # Text is darker than its ground on light pages and lighter on dark ones, with a contrast of 7 or more.
    colours = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    ink, paper = (luminance(colour) for colour in colours)
    assert (ink < paper) == (scheme == "light")
    assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 7
    context.close()


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)` (WCAG 2.1)."""
    parts = [int(x) / 255 for x in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_filters_and_sorting_work(browser: Any, site: Path) -> None:
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    visible = "tr[data-model]:visible"
    assert page.locator(visible).count() == 2 * (1 + 6)
    page.fill("#find", "poor")
    assert set(page.locator(f"{visible} > th").all_inner_texts()) == {"poor"}
    page.fill("#find", "")
    page.select_option("#group", "NER")
    assert page.locator("main > section.card:visible h2").all_inner_texts() == ["NER"]
    page.select_option("#group", "")
    page.click("button[data-kind=measured]")
    assert page.locator(visible).count() == 0
    page.click("button[data-kind=measured]")
    head = page.locator("main > section.card table").first.locator("thead th").nth(1)
    names = page.locator("main > section.card").first.locator(f"{visible} > th")
    head.click()
    assert names.all_inner_texts() == ["good", "poor"]
    head.click()
    assert names.all_inner_texts() == ["poor", "good"]
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.close()


def test_the_reason_of_a_grey_figure_stays_as_long_as_the_figure(
    browser: Any, mock_results: Path, tmp_path: Path
) -> None:
    # A measured row is grey here: that is no matter of reported rows, nor of rows that a search leaves out.
    shutil.copytree(mock_results / "of-good", tmp_path / "other")
    change_records(tmp_path / "other", "mock-ner", protocol={"files": {"test.tsv": "0" * 64}})
    build_site([mock_results / "of-poor", mock_results / "of-poor", tmp_path / "other"], tmp_path / "site")
    page = browser.new_page()
    page.goto((tmp_path / "site" / "index.html").as_uri())
    notes = page.locator(".notes").first
    assert notes.is_visible()
    page.click("button[data-kind=reported]")
    assert notes.is_visible()
    page.click("button[data-kind=measured]")
    assert not notes.is_visible()
    page.click("button[data-kind=measured]")
    page.fill("#find", "poor")
    assert not notes.is_visible()
    page.fill("#find", "good")
    assert notes.is_visible()
    page.click("button[data-kind=other]")
    assert not notes.is_visible()
    page.close()


def test_the_open_suite_is_in_sight_where_the_list_of_suites_is_too_long(
    browser: Any, site: Path, tmp_path: Path
) -> None:
    shutil.copytree(site, tmp_path / "site")
    file = tmp_path / "site" / "index.html"
    more = "".join(f'<a href="index.html">another-suite-{n}</a>' for n in range(6))
    text = file.read_text(encoding="utf-8")
    assert text.count('<nav aria-label="Suites">') == 1
    file.write_text(
        text.replace('<nav aria-label="Suites">', '<nav aria-label="Suites">' + more), encoding="utf-8"
    )
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(file.as_uri())
    nav, suite = (page.locator(part).bounding_box() for part in (".top nav", ".top nav [aria-current]"))
    assert nav["x"] <= suite["x"] and suite["x"] + suite["width"] <= nav["x"] + nav["width"] + 1
    page.close()


def test_models_of_one_name_each_have_a_name_of_their_own(mock_results: Path) -> None:
    with gathered([mock_results / "of-good"] * 4) as (models, _):
        names = [model.model.name for model in models]
    assert names[:2] == ["good", "good (of-good)"] and len(set(names)) == 4


def test_predictions_of_another_kind_do_not_stop_the_site(mock_results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(mock_results / "of-good", folder)
    for path in (folder / "good" / "mock-ner").glob("*.predictions.jsonl"):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        lines[3]["prediction"][0] = True
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    build_site([folder], tmp_path / "site")
    assert "do not fit the data" in read(tmp_path / "site", "dataset/mock-ner.html")


def test_a_run_without_precision_leaves_the_column_out(mock_results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(mock_results / "of-good", folder)
    path = next(p for p in (folder / "good" / "mock-ner").glob("seed-2-*.json") if "." not in p.stem)
    record = json.loads(path.read_text(encoding="utf-8"))
    del record["scores"]["precision"]
    path.write_text(json.dumps(record), encoding="utf-8")
    build_site([folder], tmp_path / "site")
    assert ">Precision<" not in read(tmp_path / "site", "dataset/mock-ner.html").partition("<details>")[0]


def rename(results: Path, folder: Path, name: str, **changed: Any) -> Path:
    """A copy of results whose model has another name, and other facts."""
    shutil.copytree(results, folder)
    path = next(folder.glob("*/model.json"))
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**record, "name": name, **changed}), encoding="utf-8")
    return folder


def test_a_site_is_made_anew_from_inside_it_and_through_a_link(
    mock_results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A folder that is emptied before its new content is in place would be lost where "." cannot be removed.
    build_site([mock_results / "of-good"], tmp_path / "site")
    monkeypatch.chdir(tmp_path / "site")
    build_site([mock_results / "of-poor"], Path())
    monkeypatch.chdir(tmp_path)
    assert "poor" in read(tmp_path / "site", "index.html")
    (tmp_path / "current").symlink_to("site")
    build_site([mock_results / "of-good"], tmp_path / "current")
    assert (tmp_path / "current").is_symlink() and "poor" not in read(tmp_path / "site", "index.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "site"]


def test_a_dollar_in_a_name_is_no_formula_and_letters_of_any_script_are_drawn(
    mock_results: Path, tmp_path: Path
) -> None:
    # matplotlib would take what stands between two dollars for mathematics, and stop where it is none.
    names = ("a$x^$b", "模型")
    folders = [rename(mock_results / "of-good", tmp_path / str(i), name) for i, name in enumerate(names)]
    build_site(folders, tmp_path / "site")
    for page in ("index.html", "dataset/mock-ner.html"):
        drawn = "".join(re.findall(r"<svg.*?</svg>", read(tmp_path / "site", page), re.DOTALL))
        assert all(f">{name}</text>" in drawn for name in names)


def test_names_without_a_latin_letter_and_endless_ones_have_pages(mock_results: Path, tmp_path: Path) -> None:
    names = ("模型", "型模", "x" * 300, "x" * 301)
    folders = [rename(mock_results / "of-good", tmp_path / str(i), name) for i, name in enumerate(names)]
    build_site(folders, tmp_path / "site", FOLDER)
    pages = sorted(path.stem for path in (tmp_path / "site" / "model").iterdir())
    assert len(pages) == len(names) and not any(page.startswith(".") for page in pages)
    page = read(tmp_path / "site", "dataset/mock-ner.html")
    assert set(re.findall(r'<section class="card" id="([^"]*)"', page)) == set(pages)


@pytest.mark.parametrize("inputs", [3, "ab", [1], {"a": 1}])
def test_a_lineage_that_is_none_does_not_stop_the_site(
    mock_results: Path, tmp_path: Path, inputs: object
) -> None:
    folder = rename(mock_results / "of-good", tmp_path / "results", "good", lineage={"inputs": inputs})
    change_records(folder, "mock-ner", scores={"value": 0.5, "precision": {"a": 1}, "recall": 0.5})
    build_site([folder], tmp_path / "site")
    assert "Lineage" in read(tmp_path / "site", "model/good.html")
