"""The console in a browser, for who only looks: lists, runs, drift, schemes, widths, keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Tab, World, keep
from tests.browser.shop import ORDER, PARCEL

PAGES = {
    "runs": "/",
    "run": f"/run?id={ORDER}",
    "drift": f"/drift?id={PARCEL}",
    "raw": f"/raw?id={PARCEL}",
    "drifted-run": f"/run?id={PARCEL}",
    "filtered": "/?status=drifted",
    "nothing": "/?q=nothing",
}
DRAWN = {"runs", "run", "drift"}
FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
FOCUSED = """() => {
  const all = [...document.querySelectorAll(FOCUSABLE)];
  return all.indexOf(document.activeElement);
}""".replace("FOCUSABLE", repr(FOCUSABLE))
REACHABLE = """() => [...document.querySelectorAll(FOCUSABLE)]
  .map((each, at) => each.checkVisibility() ? at : -1).filter((at) => at >= 0)""".replace(
    "FOCUSABLE", repr(FOCUSABLE)
)
# How far the texts of a picture reach out of the boxes of their states, in pixels.
STICKING_OUT = """() => [...document.querySelectorAll("svg.picture g.state")].flatMap((state) => {
  const wide = (each) => each.getBoundingClientRect();
  const boxes = [...state.querySelectorAll("path, polygon, ellipse")].map(wide);
  const box = boxes.sort((one, other) => other.width - one.width)[0];
  return [...state.querySelectorAll("text")].map(wide)
    .map((text) => Math.max(box.left - text.left, text.right - box.right));
})"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 2560])
def test_every_page_fits_in_both_schemes(
    quiet_world: World, tab: Callable[..., Tab], screenshots: Path, scheme: str, width: int
) -> None:
    """No page is wider than its window; pictures of the chief ones are kept."""
    opened = tab(color_scheme=scheme, viewport={"width": width, "height": 800})
    for name, address in PAGES.items():
        opened.page.goto(f"{quiet_world.looking}{address}")
        expect(opened.page.locator("h1, .empty").first).to_be_visible()
        assert opened.page.evaluate(OVERFLOW) <= 0, name
        if name in DRAWN:
            keep(opened.page, screenshots / f"{name}-{scheme}-{width}.png")


def test_labels_stay_in_their_boxes_in_a_font_that_is_wider(
    quiet_world: World, tab: Callable[..., Tab]
) -> None:
    """Who has neither Helvetica nor one of its widths reads the same picture."""
    page = tab().page
    page.goto(f"{quiet_world.looking}/run?id={ORDER}")
    usual = page.evaluate(STICKING_OUT)
    # Not by a style sheet of the test's: the page lets in none.
    page.evaluate("""() => document.querySelectorAll("svg.picture text").forEach(
        (text) => text.setAttribute("font-family", "monospace"))""")
    wider = page.evaluate(STICKING_OUT)
    assert len(wider) == len(usual) > 10
    assert max(usual) < 0
    assert max(wider) < 0


def test_the_schemes_differ(quiet_world: World, tab: Callable[..., Tab]) -> None:
    """The page and the statechart in it follow what the reader prefers."""
    seen = set()
    for scheme in ("light", "dark"):
        page = tab(color_scheme=scheme).page
        page.goto(f"{quiet_world.looking}/run?id={ORDER}")
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        text = page.locator("#chart-root svg text").first.evaluate("e => getComputedStyle(e).fill")
        seen.add((back, text))
    backs, texts = zip(*seen, strict=True)
    assert len(set(backs)) == len(set(texts)) == 2


def test_from_the_list_to_a_run(quiet_world: World, tab: Callable[..., Tab]) -> None:
    """The list finds a run; its page shows the chart lit up, its waits, and what is in doubt."""
    page = tab().page
    page.goto(quiet_world.looking)
    expect(page.locator("table.runs tbody tr")).to_have_count(7)
    page.get_by_label("Id begins with").fill("order")
    page.get_by_role("button", name="Find").click()
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    page.get_by_role("link", name=ORDER).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("order")
    expect(page.get_by_role("heading", name="In doubt")).to_be_visible()
    expect(page.locator("#chart-root svg .state.active").first).to_be_visible()
    expect(page.locator("#waits")).to_contain_text("sending.4/carrier")
    nested = page.locator("details.nested")
    expect(nested).to_have_count(1)
    expect(nested).to_contain_text("Delivery")
    nested.locator("summary").first.click()
    expect(nested.locator("svg")).to_be_hidden()
    expect(page.locator("form")).to_have_count(0)


def test_filters_go_together(quiet_world: World, tab: Callable[..., Tab]) -> None:
    """A status chosen after a machine keeps the machine, and the other way round."""
    page = tab().page
    page.goto(quiet_world.looking)
    page.get_by_label("Machine").select_option("parcel")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="drifted", exact=True).click()
    expect(page).to_have_url(re.compile("machine=parcel"))
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    expect(page.locator(".chips [aria-current=page]")).to_have_text("drifted")
    page.get_by_label("Machine").select_option("order")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_text("No runs match.")).to_be_visible()


def test_drift_shows_old_beside_new(quiet_world: World, tab: Callable[..., Tab]) -> None:
    """The state that is gone is marked in the old picture, the new one in the new picture."""
    page = tab().page
    page.goto(f"{quiet_world.looking}/run?id={PARCEL}")
    page.get_by_role("link", name="Compare its shape").click()
    sides = page.locator(".beside > section")
    expect(sides).to_have_count(2)
    expect(sides.nth(0).locator("svg .gone").first).to_be_visible()
    expect(sides.nth(0).locator("svg")).to_contain_text("review")
    expect(sides.nth(1).locator("svg .new").first).to_be_visible()
    expect(sides.nth(1).locator("svg")).to_contain_text("customs")
    expect(page.locator(".diff")).to_contain_text("gone state review")
    boxes = [sides.nth(side).bounding_box() for side in (0, 1)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]


@pytest.mark.parametrize("address", ["/", f"/run?id={ORDER}", f"/drift?id={PARCEL}"])
def test_the_keyboard_reaches_everything(
    quiet_world: World, tab: Callable[..., Tab], address: str
) -> None:
    """With Tab alone, the way past the bar first, and each place is seen to have the focus."""
    page = tab().page
    page.goto(f"{quiet_world.answering}{address}")
    wanted = page.evaluate(REACHABLE)
    reached = []
    for _ in wanted:
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
    assert reached == wanted
    page.goto(f"{quiet_world.answering}{address}")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_the_keyboard_opens_what_is_folded(quiet_world: World, tab: Callable[..., Tab]) -> None:
    """A chart's states, as a list, without a pointer."""
    page = tab().page
    page.goto(f"{quiet_world.looking}/run?id={ORDER}")
    states = page.locator("#chart-root-states")
    states.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(states.get_by_text("active").first).to_be_visible()


def test_nothing_is_asked_of_anybody_else(quiet_world: World, tab: Callable[..., Tab]) -> None:
    """Every request of every page goes to the console."""
    opened = tab()
    for address in PAGES.values():
        opened.page.goto(f"{quiet_world.looking}{address}")
        opened.page.wait_for_load_state("load")
    expect(opened.page.locator("#line")).to_have_attribute("data-state", "live")
    assert len(opened.asked) > len(PAGES)
    assert [url for url in opened.asked if not url.startswith(f"{quiet_world.looking}/")] == []


def test_pages_work_without_javascript(
    quiet_world: World, tab: Callable[..., Tab], screenshots: Path
) -> None:
    """All but the updates: finding, opening, folding; the page says that it does not update."""
    page = tab(java_script_enabled=False).page
    page.goto(quiet_world.looking)
    expect(page.get_by_text("reload it for news")).to_be_visible()
    page.get_by_label("Id begins with").fill("order")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name=ORDER).click()
    expect(page.locator("#chart-root svg")).to_be_visible()
    states = page.locator("#chart-root-states")
    states.locator("summary").click()
    expect(states.get_by_text("active").first).to_be_visible()
    page.get_by_role("link", name="Raw JSON").click()
    expect(page.locator("pre.json")).to_contain_text('"machine": "order"')
    keep(page, screenshots / "without-javascript.png")
