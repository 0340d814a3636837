"""The console's pages: what they show of a file, and that nothing in it is obeyed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snapshots import SqliteSnapshotStore, open_store
from snapshots.inspection.limits import (
    CONSOLE_DOCUMENT_LINES_MAX,
    CONSOLE_LEDGER_ROWS_MAX,
    CONSOLE_PAGE_ROWS,
    CONSOLE_PICTURE_STATES_MAX,
)
from snapshots.records import RunHeader
from snapshots.testing import ManualClock
from tests.unit.snapshots.inspection.console.consoles import Page, opened, page
from tests.unit.snapshots.inspection.stored_runs import (
    DIGEST,
    MACHINE,
    RUN,
    SHAPE,
    effect,
    encoded,
    root_node,
    run_of,
    run_value,
    state,
)

HOSTILE = (
    "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}\x1b[31m\u202e</textarea>"
)
# An id may hold printable characters only.
HOSTILE_ID = HOSTILE.replace("\x1b", "").replace("\u202e", "")
OTHER = "0299b1c2-7e1c-7b1e-9b3f-3a2b1c0d9e8f"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSnapshotStore]:
    """Hold the file open for writing, as a host would."""
    with open_store(path, clock=ManualClock()) as held:
        yield held


def add(store: SqliteSnapshotStore, run_id: str = RUN, **changes: Any) -> RunHeader:
    """Create a run as the fixtures describe it."""
    machine = changes.get("machine", MACHINE)
    digest = changes.get("digest", DIGEST)
    blob = encoded(run_value(run=run_id, machine=machine, digest=digest))
    fields: dict[str, Any] = {"run_id": run_id, "machine": machine, "digest": digest}
    return store.create(**(fields | {"shape": encoded(SHAPE), "blob": blob} | changes))


async def test_the_list_has_the_newest_runs_first(path: Path, store: SqliteSnapshotStore) -> None:
    """Each with its status in a word, its machine and a link."""
    add(store)
    add(store, OTHER, machine="incident", digest="aaaaaaaaaaaa")
    async with opened(path) as client:
        found = await page(client, "/")
    assert found.text.index(OTHER) < found.text.index(RUN)
    assert "incident" in found.text
    assert f"/run?id={RUN}" in found.values("a", "href")
    assert "live 2 ended 0" in found.text


async def test_the_list_is_filtered_by_status_machine_and_beginning(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """One filter at a time, and all of them at once."""
    add(store)
    header = add(store, OTHER, machine="incident", digest="aaaaaaaaaaaa")
    store.mark(header, "lost", "its world was gone")
    async with opened(path) as client:
        for params, runs in (
            ({"status": "live"}, {RUN}),
            ({"status": "lost"}, {OTHER}),
            ({"status": "done"}, set()),
            ({"machine": "incident"}, {OTHER}),
            ({"machine": "nobody"}, set()),
            ({"q": "02"}, {OTHER}),
            ({"q": "%"}, set()),
            ({"q": "0", "status": "live"}, {RUN}),
            ({"q": "0", "status": "lost", "machine": MACHINE}, set()),
            ({}, {RUN, OTHER}),
        ):
            found = await page(client, "/", **params)
            assert {run for run in (RUN, OTHER) if run in found.text} == runs, params
            assert ("No runs match" in found.text) == (not runs), params


async def test_a_filter_that_is_none_is_refused(path: Path, store: SqliteSnapshotStore) -> None:
    """What no page of the console asks has an answer that says what is expected."""
    add(store)
    async with opened(path) as client:
        for query in ("status=alive", "before=x", "before=-1", "before=" + "9" * 40):
            answer = await client.get(f"/?{query}")
            assert answer.status_code == 400, query
            assert "expected" in answer.text


async def test_a_long_list_has_pages(path: Path, store: SqliteSnapshotStore) -> None:
    """Following `Older` shows each run once, and the last page has no such link."""
    with store.transaction():
        names = [f"run-{number:04}" for number in range(2 * CONSOLE_PAGE_ROWS + 1)]
        for name in names:
            add(store, name)
    seen: list[str] = []
    async with opened(path) as client:
        query = "/"
        while query:
            found = await page(client, query)
            runs = [href for href in found.values("a", "href") if href.startswith("/run?")]
            assert 0 < len(runs) <= CONSOLE_PAGE_ROWS
            seen += [href.removeprefix("/run?id=") for href in runs]
            older = [href for href in found.values("a", "href") if "before=" in href]
            query = older[0] if older else ""
    assert seen == names[::-1]


async def test_a_search_that_finds_too_much_says_so(path: Path, store: SqliteSnapshotStore) -> None:
    """It has no pages: more of the id leaves out the rest."""
    with store.transaction():
        for number in range(CONSOLE_PAGE_ROWS + 1):
            add(store, f"run-{number:04}")
    async with opened(path) as client:
        assert "give more of the id" in (await page(client, "/", q="run-")).text
        assert "give more of the id" not in (await page(client, "/", q="run-000")).text


async def test_an_empty_file_has_an_empty_list(path: Path, store: SqliteSnapshotStore) -> None:
    """It says what will be there."""
    assert store.path
    async with opened(path) as client:
        assert "As soon as a host starts one" in (await page(client, "/")).text


async def test_a_page_shows_all_of_a_run(path: Path, store: SqliteSnapshotStore) -> None:
    """Its charts, what it waits for, every ledger, and what is in doubt before all else."""
    add(store)
    async with opened(path) as client:
        found = await page(client, "/run", id=RUN)
    assert found.tags.count("svg") == 3  # the mark of the console, and two charts
    for words in (
        "In doubt",
        "asking.1",
        "accepts approve reject",
        "{'role': 'editor'}",
        "in 4 m 15 s",
        "sends remind",
        "Decimal('1.20')",
        "entered working, paying, asking, review",
        "Admissions",
        "job-7",
        "Epochs",
        "Picks",
        "Pushes",
        "2 deliveries are remembered",
    ):
        assert words in found.text, words
    assert found.text.index("In doubt") < found.text.index("Statechart")
    assert {"chart-root", "effects", "timers", "queue", "children", "trail"} <= {
        value for _, name, value in found.attributes if name == "id"
    }


async def test_active_states_are_named_in_words_too(path: Path, store: SqliteSnapshotStore) -> None:
    """A colour never stands alone: the list below the picture says active."""
    add(store)
    async with opened(path) as client:
        text = (await page(client, "/run", id=RUN)).text
    assert "paying active" in text
    assert "cart active" not in text


async def test_a_run_is_found_by_its_beginning(path: Path, store: SqliteSnapshotStore) -> None:
    """Of several the page names each; of none it says so."""
    add(store)
    add(store, f"{RUN[:-1]}0")
    async with opened(path) as client:
        several = await client.get("/run", params={"id": RUN[:8]})
        none = await client.get("/run", params={"id": "zz"})
        missing = await client.get("/run")
        assert RUN in (await page(client, "/run", id=RUN)).text
    assert several.status_code == none.status_code == 404
    assert f"/run?id={RUN}" in Page(several.text).values("a", "href")
    assert "not in" in Page(none.text).text
    assert missing.status_code == 400


async def test_a_run_that_cannot_be_read_shows_its_header(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """And why; its JSON says the same."""
    add(store, blob=b'{"v": 1, "run": 7}')
    async with opened(path) as client:
        found = await page(client, "/run", id=RUN)
        document = (await client.get("/run.json", params={"id": RUN})).json()
        assert "unreadable" in (await page(client, "/raw", id=RUN)).text
    assert "Its content cannot be read" in found.text
    assert document["unreadable"]
    assert document["run"]["run"] == RUN


async def test_what_a_damaged_head_cannot_say_is_not_known(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """In the list and on the run's page: no odd number of saves, nothing that was due in 1970."""
    add(store)
    with store.transaction():
        store.database.run("update runs set head = zeroblob(52)")
    async with opened(path) as client:
        for found in (await page(client, "/"), await page(client, "/run", id=RUN)):
            assert found.text.count("not known") >= 2
            assert "overdue" not in found.text
            assert "1970" not in found.text
            assert str(2**33 - 1) not in found.text


async def test_a_damaged_shape_leaves_the_states(path: Path, store: SqliteSnapshotStore) -> None:
    """The run is readable without it; a drift page says what is missing."""
    add(store, shape=b'{"name": 7}')
    async with opened(path) as client:
        assert "review active" in (await page(client, "/run", id=RUN)).text
        assert "expected" in (await page(client, "/drift", id=RUN)).text


async def test_a_chart_too_large_to_draw_is_a_list(path: Path, store: SqliteSnapshotStore) -> None:
    """Its states are all there, and nothing keeps the page waiting."""
    names = [f"state{number}" for number in range(CONSOLE_PICTURE_STATES_MAX + 1)]
    add(store, shape=encoded({"name": "Checkout", "states": [state(name) for name in names]}))
    async with opened(path) as client:
        found = await page(client, "/run", id=RUN)
    assert "too many states" in found.text
    assert all(name in found.text for name in names)


async def test_long_ledgers_are_cut_with_what_needs_a_person_first(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """An effect in doubt is shown however many were settled after it."""
    rows = [effect(f"a.{number}", "done") for number in range(3 * CONSOLE_LEDGER_ROWS_MAX)]
    blob = run_value(effects=[effect("lost.1", "unknown"), *rows])
    add(store, blob=encoded(blob))
    async with opened(path) as client:
        text = (await page(client, "/run", id=RUN)).text
    assert "lost.1" in text
    assert f"and {2 * CONSOLE_LEDGER_ROWS_MAX + 1} more" in text
    assert f"a.{3 * CONSOLE_LEDGER_ROWS_MAX - 1} " in text


async def test_a_context_of_many_values_is_cut(path: Path, store: SqliteSnapshotStore) -> None:
    """A page that is fetched at each save stays small, however much a run knows."""
    values = {f"value{number}": "x" * 100 for number in range(20 * CONSOLE_LEDGER_ROWS_MAX)}
    add(store, blob=encoded(run_value(root=root_node(context=values), input=values)))
    async with opened(path) as client:
        shown = (await client.get("/run", params={"id": RUN})).text
    assert "value0" in shown
    assert f"value{CONSOLE_LEDGER_ROWS_MAX}<" not in shown
    assert shown.count(f"and {19 * CONSOLE_LEDGER_ROWS_MAX} more") == 2
    assert len(shown) < 200_000


async def test_what_a_person_reads_is_no_structure(path: Path, store: SqliteSnapshotStore) -> None:
    """What a gate asks and what an exception said are written out."""
    fault = {"type": "ConnectionError", "message": "the answer was lost"}
    add(store, blob=encoded(run_value(effects=[effect("asking.1", "unknown", error=fault)])))
    async with opened(path) as client:
        text = (await page(client, "/run", id=RUN)).text
    assert "role: editor" in text
    assert "ConnectionError: the answer was lost" in text


async def test_the_json_is_what_the_command_prints(path: Path, store: SqliteSnapshotStore) -> None:
    """Whole as a document, and in lines on a page, up to a bound."""
    add(store)
    long = [f"line {number}" for number in range(CONSOLE_DOCUMENT_LINES_MAX + 1)]
    add(store, OTHER, blob=encoded(run_value(run=OTHER, input={"lines": long})))
    async with opened(path) as client:
        document = (await client.get("/run.json", params={"id": RUN})).json()
        shown = await page(client, "/raw", id=RUN)
        cut = await page(client, "/raw", id=OTHER)
    assert document["step"] == 17
    text = "".join(shown.words[shown.words.index("{") :]).partition("127.0.0.1")[0]
    assert json.loads(text) == document
    assert f"Only the first {CONSOLE_DOCUMENT_LINES_MAX} lines" in cut.text


async def test_drift_shows_both_shapes_and_what_differs(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """A state that is gone is in the old picture alone, one that is new in the new one alone."""
    add(store)
    later = [each for each in SHAPE["states"] if each["name"] != "review"]
    shape = SHAPE | {"states": [*later, state("audit", "working")]}
    blob = run_value(run=OTHER, digest="aaaaaaaaaaaa", root=root_node(configuration=["cart"]))
    add(store, OTHER, digest="aaaaaaaaaaaa", shape=encoded(shape), blob=encoded(blob))
    async with opened(path) as client:
        found = await page(client, "/drift", id=RUN)
        run = await page(client, "/run", id=RUN)
        same = await page(client, "/drift", id=OTHER)
        newest = await page(client, "/run", id=OTHER)
    assert "gone state review" in found.text
    assert "new state audit" in found.text
    old, _, new = found.text.partition("The newest shape")
    assert DIGEST in old
    assert "aaaaaaaaaaaa" in new
    assert "review" not in new
    assert "audit" not in old.partition("Differences")[2].partition(DIGEST)[2]
    assert f"/drift?id={RUN}" in run.values("a", "href")
    assert "None: the shapes are the same" in same.text
    assert f"/drift?id={OTHER}" not in newest.values("a", "href")


async def test_nothing_out_of_a_file_is_obeyed(path: Path, store: SqliteSnapshotStore) -> None:
    """Whatever a name says, a page has the tags of its template, and no control character."""
    shape = SHAPE | {"name": HOSTILE, "states": [state(HOSTILE), state(f"{HOSTILE}2", HOSTILE)]}
    shape |= {"transitions": [[HOSTILE, HOSTILE, [f"{HOSTILE}2"], False, False]]}
    fields = {"machine": HOSTILE, "shape": encoded(shape)}
    blob = encoded(run_of(HOSTILE, HOSTILE_ID))
    header = add(store, HOSTILE_ID, digest=HOSTILE, blob=blob, **fields)
    add(store, OTHER, digest="aaaaaaaaaaaa", shape=encoded(SHAPE), machine=HOSTILE)
    async with opened(path, token="x" * 20) as client:
        pages = [
            await page(client, "/"),
            await page(client, "/", q=HOSTILE[:3], machine=HOSTILE),
            await page(client, "/run", id=HOSTILE_ID),
            await page(client, "/drift", id=HOSTILE_ID),
            await page(client, "/raw", id=HOSTILE_ID),
            Page((await client.get("/run", params={"id": f"{HOSTILE}?"})).text),
        ]
        store.mark(header, "lost", HOSTILE)
        pages += [await page(client, "/"), await page(client, "/run", id=HOSTILE_ID)]
    for found in pages:
        assert found.tags.count("script") == 1
        assert not {"img", "iframe", "object", "foreignobject", "style", "base"} & set(found.tags)
        assert not [name for _, name, _ in found.attributes if name.startswith("on")]
        assert not [name for _, name, _ in found.attributes if name == "style"]
        assert "49" not in found.text.replace(HOSTILE, "").replace("{{7*7}}", "")
        assert "\x1b" not in found.text
        assert "\u202e" not in found.text
        hrefs = found.values("a", "href") + found.values("form", "action")
        assert all(href.startswith(("/", "#main")) for href in hrefs)
    assert all("<script>alert(1)" in found.text for found in pages[2:5])


async def test_every_address_leads_somewhere(path: Path, store: SqliteSnapshotStore) -> None:
    """Each link and each file that a page of the console names is there."""
    add(store)
    async with opened(path) as client:
        todo, done = ["/"], set[str]()
        while todo:
            address = todo.pop()
            if address in done:
                continue
            done.add(address)
            answer = await client.get(address)
            assert answer.status_code == 200, address
            if answer.headers["content-type"].startswith("text/html"):
                found = Page(answer.text)
                links = found.values("a", "href") + found.values("link", "href")
                todo += [each for each in links if each.startswith("/")]
                todo += found.values("script", "src")
    assert {"/static/console.css", "/static/console.js", "/static/picture.css"} <= done


async def test_an_address_that_leads_nowhere_is_a_page(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """Files beside those that are served are not to be had."""
    add(store)
    async with opened(path) as client:
        for address in ("/nothing", "/static/nothing.css", "/static/%2e%2e/app.py", "/static/"):
            answer = await client.get(address)
            assert answer.status_code == 404, address
            assert "All runs" in answer.text


async def test_a_file_that_is_not_there_is_said_to_be_missing(path: Path) -> None:
    """The page says so, and shows the runs once there are any."""
    async with opened(path) as client:
        missing = await client.get("/")
        assert missing.status_code == 503
        assert "there is no such file" in missing.text
        assert missing.headers["retry-after"] == "2"
        # It comes back by itself, without a script too.
        refresh = Page(missing.text).attributes
        assert ("meta", "http-equiv", "refresh") in refresh
        assert ("meta", "content", "2") in refresh
        with open_store(path) as store:
            add(store)
            assert RUN in (await page(client, "/")).text


async def test_a_file_put_in_place_of_another_is_read(path: Path, tmp_path: Path) -> None:
    """A restored backup is seen at once, and not the file that was there before."""
    with open_store(path) as store:
        add(store)
    with open_store(tmp_path / "other.db") as store:
        add(store, OTHER)
    async with opened(path) as client:
        assert RUN in (await page(client, "/")).text
        (tmp_path / "other.db").replace(path)
        text = (await page(client, "/")).text
    assert OTHER in text
    assert RUN not in text
