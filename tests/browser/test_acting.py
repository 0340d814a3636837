"""The console in a browser while a host is alive: news of other processes, answers, settlements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Tab, World, keep
from tests.browser.shop import ORDER
from tests.unit.snapshots.inspection.cli.command_line import command
from tests.unit.snapshots.inspection.console.consoles import TOKEN


def gate(page: Page, name: str) -> Locator:
    """Return the part of a page that is about an open gate, its form unfolded."""
    found = page.locator(".wait.w-gate").filter(has=page.locator(f".name >> text='{name}'"))
    found.get_by_text("Answer").click()
    return found


def test_a_send_of_another_process_is_seen_at_once(
    world: World, tab: Callable[..., Tab], screenshots: Path
) -> None:
    """By the list and by the run's page, neither of which is loaded anew; what is open stays so."""
    runs, run = tab().page, tab().page
    runs.goto(world.looking)
    run.goto(f"{world.looking}/run?id={ORDER}")
    for page in (runs, run):
        expect(page.locator("#line")).to_have_attribute("data-state", "live")
        page.evaluate("window.isTheSame = true")
    run.locator("#chart-root-states > summary").click()
    saves = runs.locator("tr", has_text=ORDER).locator(".c-saves")
    before = int(saves.inner_text())
    sent = command("send", ORDER, "note", "--data", '{"text": "a third lamp"}', world.file)
    assert (sent.returncode, sent.stdout) == (0, "taken\n"), sent.stderr
    expect(run.locator("#context")).to_contain_text("a third lamp")
    expect(saves).not_to_have_text(str(before))
    assert int(saves.inner_text()) > before
    expect(run.locator("#chart-root-states ul").first).to_be_visible()
    assert all(page.evaluate("window.isTheSame") for page in (runs, run))
    keep(run, screenshots / "live-update.png")


def test_the_chart_lights_up_where_the_run_goes(world: World, tab: Callable[..., Tab]) -> None:
    """The state that an answer leads to is lit in the picture, and its timer counts down."""
    page = tab().page
    page.goto(f"{world.looking}/run?id={ORDER}")
    expect(page.locator("#line")).to_have_attribute("data-state", "live")
    lit = page.locator("#chart-root svg .state.active")
    expect(lit.filter(has_text="holding")).to_have_count(0)
    assert command("answer", ORDER, "review", "approve", world.file).returncode == 0
    expect(lit.filter(has_text="holding").first).to_be_visible()
    due = page.locator(".wait.w-timer time")
    expect(due).to_contain_text("in 2 h 59 m")


def test_a_page_does_not_call_itself_live_when_its_file_cannot_be_read(
    world: World, tab: Callable[..., Tab]
) -> None:
    """It says so, keeps what it shows, and is live again once the file is back."""
    opened = tab()
    page, line = opened.page, opened.page.locator("#line")
    page.goto(f"{world.looking}/run?id={ORDER}")
    expect(line).to_have_attribute("data-state", "live")
    away = world.file.rename(world.file.with_suffix(".away"))
    expect(line).to_contain_text("cannot be read now")
    expect(page.locator("#chart-root svg")).to_be_visible()
    lost = tab()
    lost.page.goto(world.looking)
    expect(lost.page.get_by_role("heading", level=1)).to_contain_text("cannot be read now")
    away.rename(world.file)
    expect(line).to_contain_text("live")
    expect(lost.page.get_by_role("heading", level=1)).to_have_text("Runs")
    # That it was refused for a while is what the browser itself notes.
    for each in (opened, lost):
        assert all("503" in fault for fault in each.faults)
        each.faults.clear()


def test_what_is_being_typed_is_not_taken_away(world: World, tab: Callable[..., Tab]) -> None:
    """News of other parts of the page comes in around it."""
    page = tab().page
    page.goto(f"{world.answering}/run?id={ORDER}")
    expect(page.locator("#line")).to_have_attribute("data-state", "live")
    data = gate(page, "review").get_by_label("Data")
    data.fill('{"by": "K')
    assert command("send", ORDER, "note", "--data", '{"text": "later"}', world.file).returncode == 0
    expect(page.locator("#context")).to_contain_text("later")
    expect(data).to_have_value('{"by": "K')
    expect(data).to_be_focused()


def test_a_gate_is_answered_with_the_token(
    world: World, tab: Callable[..., Tab], screenshots: Path
) -> None:
    """The host takes it, the page says so, and the token is asked for once per tab."""
    page = tab().page
    page.goto(f"{world.answering}/run?id={ORDER}")
    review = gate(page, "review")
    review.get_by_label("Data").fill('{"by": "Kim"}')
    review.get_by_label("Token").fill(TOKEN)
    review.get_by_role("button", name="approve").click()
    expect(page.locator(".banner.good")).to_contain_text("Taken.")
    expect(page.locator("#context")).to_contain_text("'Kim'")
    keep(page, screenshots / "gate-answered.png")
    carrier = gate(page, "sending.4/carrier")
    expect(carrier.get_by_label("Token")).to_be_hidden()
    carrier.get_by_role("button", name="collected").click()
    expect(page.locator(".banner.good")).to_contain_text("Taken.")
    expect(page.locator("details.nested")).to_have_count(0)
    page.get_by_role("button", name="forget the token").click()
    expect(page.get_by_role("button", name="forget the token")).to_have_count(0)
    assert TOKEN not in page.url


def test_a_gate_is_not_answered_without_the_token(world: World, tab: Callable[..., Tab]) -> None:
    """A wrong one is refused with the reason; the console without one has no form at all."""
    opened = tab()
    page = opened.page
    page.goto(f"{world.answering}/run?id={ORDER}")
    review = gate(page, "review")
    review.get_by_label("Token").fill("wrong" * 5)
    review.get_by_role("button", name="approve").click()
    expect(page.locator(".banner.bad")).to_contain_text("the token is missing or wrong")
    page.goto(f"{world.looking}/run?id={ORDER}")
    expect(page.locator("#waits")).to_contain_text("review")
    expect(page.locator("form.act")).to_have_count(0)
    # That the answer was a refusal is what the browser itself notes.
    assert all("403" in fault for fault in opened.faults)
    opened.faults.clear()


def test_a_link_may_bring_the_token(world: World, tab: Callable[..., Tab]) -> None:
    """In its fragment, which no request carries, and which does not stay in the address."""
    opened = tab()
    page = opened.page
    page.goto(f"{world.answering}/run?id={ORDER}#token={TOKEN}")
    expect(page.get_by_role("button", name="forget the token")).to_be_visible()
    assert page.url == f"{world.answering}/run?id={ORDER}"
    gate(page, "review").get_by_role("button", name="reject").click()
    expect(page.locator(".banner.good")).to_contain_text("Taken.")
    expect(page.locator("#head .status")).to_have_text("done")
    assert [url for url in opened.asked if TOKEN in url.partition("#")[0]] == []


def test_an_effect_in_doubt_is_settled(
    world: World, tab: Callable[..., Tab], screenshots: Path
) -> None:
    """By who knows that it was done; then nothing is in doubt any more."""
    page = tab().page
    page.goto(f"{world.answering}/run?id={ORDER}")
    doubt = page.locator("#doubt")
    doubt.get_by_text("Settle it").click()
    doubt.get_by_label("Result").fill('"receipt 7"')
    doubt.get_by_label("Token").fill(TOKEN)
    keep(page, screenshots / "settling.png")
    doubt.get_by_role("button", name="It was done").click()
    expect(page.locator(".banner.good")).to_contain_text("Taken.")
    expect(page.get_by_role("heading", name="In doubt")).to_have_count(0)
    expect(page.locator("#effects")).not_to_contain_text("in doubt")


def test_a_gate_is_answered_without_javascript(world: World, tab: Callable[..., Tab]) -> None:
    """The form is a form: the page that comes back says what became of it."""
    page = tab(java_script_enabled=False).page
    page.goto(f"{world.answering}/run?id={ORDER}")
    review = gate(page, "review")
    review.get_by_label("Token").fill(TOKEN)
    review.get_by_role("button", name="approve").click()
    expect(page.locator(".banner.good")).to_contain_text("Taken.")
