# The HTML report in a real browser: it is read, used by mouse and keyboard, and must neither run foreign text nor ask the
# network for anything. build/.../bin/report_sample writes the pages.
import json
import subprocess

import pytest
from browser import CHROMIUM, Browser
from conftest import PROGRAM

SAMPLE = PROGRAM.parent / "report_sample"
WHAT_TO_COPY = "seed = 7\n[data]\nworkers = 7\ncache = \"ram\"\n"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium or chromium-headless-shell")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for kind in ("full", "records", "ranks"):
        subprocess.run([SAMPLE, kind, folder / f"{kind}.html"], check=True)
    return folder


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


@pytest.fixture
def opened(browser, pages):
    """Opens a page; afterwards it must have stayed quiet: no error, no request but for itself, no foreign script."""

    def open_page(kind, **look):
        browser.look(**{"width": 1400, **look})
        browser.open(pages / f"{kind}.html")
        return browser

    browser.problems.clear()
    browser.requests.clear()
    yield open_page
    assert browser.problems == []
    assert {url for url in browser.requests if not url.startswith("data:")} == {url for url in browser.requests if url.startswith("file://")}
    assert len(set(browser.requests)) <= 2, browser.requests  # the page, and its empty icon
    assert not browser.run("document.title.includes('owned') && !document.title.includes('script')")
    assert browser.run("document.images.length") == 0


def text(browser, selector):
    return browser.run(f"document.querySelector({json.dumps(selector)}).textContent")


def texts(browser, selector):
    return browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")


def readout(browser, section):
    return text(browser, f"#{section} .readout")


def test_the_verdict_comes_first(opened):
    browser = opened("full")
    assert text(browser, "main > :first-child h1").startswith("The GPU waits for data during 51 % of each step")
    assert browser.run("document.querySelector('h1').getBoundingClientRect().top") < 120
    assert texts(browser, "section > h2")[0] == "What to do"
    assert texts(browser, "section > h2") == [
        "What to do", "Where the time of a step goes", "What the loader’s workers did", "What the GPU did", "Timeline",
        "Flame graph", "Operators", "Python functions", "Memory", "Batches ready when a step asked", "Findings", "Facts",
        "What could not be read or shown"]


def test_the_legend_sums_to_a_hundred_percent_and_shows_what_is_unmeasured(opened):
    browser = opened("full")
    rows = texts(browser, "#account table:first-of-type tbody td:nth-child(2)")
    names = texts(browser, "#account table:first-of-type tbody th")
    assert " unmeasured" in names
    first = browser.run("[...document.querySelector('#account table').tBodies[0].rows].map((r) => parseFloat(r.cells[1].textContent))")
    assert round(sum(first), 1) == 100.0 and len(rows) >= len(first)
    assert browser.run("document.querySelector('#account table').tFoot.rows[0].cells[1].textContent") == "100.0 %"


def test_a_fix_is_copied(opened):
    browser = opened("full")
    browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.click("#action .copy")
    browser.settle()
    assert text(browser, "#action .copy") == "Copied"
    assert browser.run("navigator.clipboard.readText()") == WHAT_TO_COPY


def test_without_the_clipboard_the_fix_is_selected_and_copied(opened):
    browser = opened("full")
    browser.run("Object.defineProperty(navigator, 'clipboard', {value: {writeText: () => Promise.reject(new Error('no'))}})")
    browser.click("#action .copy")
    browser.settle()
    assert browser.run("getSelection().toString()").strip() == WHAT_TO_COPY.strip()


def test_the_table_sorts_by_any_column_and_groups(opened):
    browser = opened("full")
    calls = "[...document.querySelectorAll('#operators tbody tr')].map((r) => Number(r.cells[1].textContent))"
    browser.click("#operators th:nth-child(2) button")
    down = browser.run(calls)
    assert down == sorted(down, reverse=True) and len(down) == 15
    browser.press("Enter")  # the heading keeps the focus
    up = browser.run(calls)
    assert up == sorted(up) and up[0] < down[0]
    assert browser.run("document.querySelector('#operators [aria-sort=ascending]').textContent").startswith("Calls")
    browser.click("#operators section > button, #operators div > button")
    assert len(browser.run(calls)) == 100
    assert text(browser, "#operators tfoot th") == "21 other rows, together"
    browser.run("(() => { const s = document.querySelector('#operators select'); s.selectedIndex = 1; s.dispatchEvent(new Event('change')); })()")
    assert "Shapes" in texts(browser, "#operators th button") and "[[256, 64, 56, 56]]" in texts(browser, "#operators td.code")


def test_functions_are_listed_by_their_own_time(opened):
    browser = opened("full")
    rows = browser.run("[...document.querySelectorAll('#functions tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))")
    assert [row[1:] for row in rows] == [["80", "30 ms", "7.5 ms", "30 ms"], ["8", "2 ms", "500 µs", "40 ms"]]
    assert rows[0][0] == "built-in method torch.conv2d" and rows[1][0].endswith(" at train.py:7")


def test_the_flame_graph_zooms_by_keyboard(opened):
    browser = opened("full")
    width = "document.querySelector('#flame .selected').getBoundingClientRect().width / document.querySelector('#flame .boxes').getBoundingClientRect().width"
    browser.run("document.querySelector('#flame .boxes').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        browser.press(key)
    assert readout(browser, "flame") == "backward: 35.4 ms, 29.3 % of all"
    assert browser.run(width) == pytest.approx(0.293, abs=0.01)
    browser.press("Enter")
    assert browser.run(width) > 0.98
    browser.press("ArrowUp")
    assert readout(browser, "flame").startswith("train.py:41 train_step")
    browser.press("Escape")
    assert browser.run(width) == pytest.approx(118 / 121, abs=0.01)
    assert browser.run("document.activeElement.matches('#flame .boxes')"), "the focus stays through zooming"
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_flame_graph_zooms_and_searches_by_mouse(opened):
    browser = opened("full")
    browser.click("#flame [data-row='2'][data-index='2']")
    assert text(browser, "#flame .name").startswith("main.py")
    assert browser.run("document.querySelectorAll('#flame .boxes .name').length") > 20
    browser.run("document.querySelector('#flame input').focus()")
    browser.call("Input.insertText", text="BATCH_norm")
    assert text(browser, "#flame .found") == "8 frames, 3.31 % of the time"
    assert browser.run("document.querySelectorAll('#flame .box.match').length") == 8


def test_the_timeline_is_walked_by_keyboard(opened):
    browser = opened("full")
    browser.run("document.querySelector('#timeline .boxes').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        browser.press(key)
    assert readout(browser, "timeline").startswith("copy: 600 µs")
    before = browser.run("document.querySelectorAll('#timeline .tick').length")
    browser.press("Enter")
    assert texts(browser, "#timeline .tick")[0] != "0" and before > 3


def test_bars_and_curves_are_read_by_keyboard(opened):
    browser = opened("full")
    for section, first in (("account", "Steps 1 to 9, mean: "), ("memory", "After 0 s: GPU 0, allocated 12 GiB"), ("queue", "Step 1: ready, mean 0")):
        browser.run(f"document.querySelector('#{section} [role=slider]').focus()")
        browser.press("ArrowRight")
        assert readout(browser, section).startswith(first)
        assert browser.run("document.activeElement.getAttribute('aria-valuetext')") == readout(browser, section)
    browser.run("document.querySelector('#account [role=slider]').focus()")
    assert "longest: step 1, 9" in readout(browser, "account")


def test_every_control_is_reached_by_tab_and_has_a_name(opened):
    browser = opened("full")
    expected = browser.run("document.querySelectorAll('a, button:not([hidden]), input, select, summary, [tabindex=\"0\"]').length")
    reached = set()
    for _ in range(expected + 5):
        browser.press("Tab")
        reached.add(browser.run("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
    assert len(reached) >= expected
    unnamed = browser.run("[...document.querySelectorAll('a, button, input, select, [tabindex=\"0\"]')].filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).length")
    assert unnamed == 0


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("dark", [False, True])
def test_fits_the_window_and_has_enough_contrast(opened, width, dark):
    browser = opened("full", width=width, dark=dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    wide = browser.run("[...document.querySelectorAll('main *')].filter((e) => !e.closest('.wide, svg') && e.getBoundingClientRect().right > innerWidth + 1).length")
    assert wide == 0
    assert browser.run(LEAST_CONTRAST) >= 4.5


# The lowest contrast (WCAG 2) of text with the background behind it; text in SVG is on a card.
LEAST_CONTRAST = """(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] !== 0) return c; } return [255, 255, 255]; };
  let least = 21;
  for (const e of document.querySelectorAll('main *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.closest('.hidden') || e.matches('.name')) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(rgb(e instanceof SVGElement ? style.fill : style.color)), light(behind(e))].sort((x, y) => y - x);
    least = Math.min(least, (a + 0.05) / (b + 0.05));
  }
  return least;
})()"""


def test_records_alone_make_a_page(opened):
    browser = opened("records")
    assert text(browser, "h1") == "Nothing is wrong: no rule found time to win."
    assert text(browser, "#action .note") == "Nothing: the run is healthy."
    assert text(browser, "#profile .note").startswith("No profile was taken.")
    assert browser.run("document.querySelectorAll('#timeline, #flame, #operators, #problems').length") == 0


def test_ranks_are_chosen(opened):
    browser = opened("ranks")
    before = texts(browser, "#account table td")
    browser.run("(() => { const s = document.querySelector('p.tools select'); s.selectedIndex = 2; s.dispatchEvent(new Event('change')); })()")
    browser.settle()
    assert "rank 2" in text(browser, "#account > p")
    assert texts(browser, "#account table td") != before
    assert len(texts(browser, "#ranks tbody tr")) == 4


def test_prints_without_controls(opened):
    browser = opened("full")
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.run("[...document.querySelectorAll('button, nav, .tools')].every((e) => getComputedStyle(e).display === 'none' || !e.offsetParent)")
    browser.call("Emulation.setEmulatedMedia", media="")
