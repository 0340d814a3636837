"""Who may ask the console, and what for: hosts, methods, origins, the token, the bounds."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from snapshots import Mailbox, SqliteSnapshotStore, open_store
from snapshots.inspection.console.app import Console
from snapshots.inspection.console.errors import TokenError
from snapshots.inspection.console.guard import SECURITY_HEADERS
from snapshots.inspection.limits import (
    CONSOLE_BODY_BYTES_MAX,
    CONSOLE_TOKEN_CHARS_MAX,
    CONSOLE_TOKEN_CHARS_MIN,
    CONSOLE_URL_CHARS_MAX,
)
from snapshots.records import MailboxEntry
from snapshots.testing import ManualClock
from tests.unit.snapshots.inspection.console.consoles import ORIGIN, TOKEN, Page, opened, page
from tests.unit.snapshots.inspection.stored_runs import (
    DIGEST,
    MACHINE,
    RUN,
    SHAPE,
    encoded,
    run_value,
)

OWN = {"origin": ORIGIN}
ANSWER = {"run": RUN, "gate": "approval", "event": "approve", "token": TOKEN}
SETTLE = {"run": RUN, "effect": f"{RUN}//asking.1", "attempt": "1", "how": "again", "token": TOKEN}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the console wait neither for a host, of which there is none, nor for a guesser."""
    monkeypatch.setattr("snapshots.inspection.console.actions.CONSOLE_OUTCOME_MS", 0)
    monkeypatch.setattr("snapshots.inspection.console.actions.CONSOLE_REFUSAL_MS", 0)


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSnapshotStore]:
    """Hold a file with one live run open for writing, as a host would."""
    with open_store(path, clock=ManualClock()) as held:
        blob, shape = encoded(run_value()), encoded(SHAPE)
        held.create(run_id=RUN, machine=MACHINE, digest=DIGEST, shape=shape, blob=blob)
        yield held


def entries(store: SqliteSnapshotStore) -> list[MailboxEntry]:
    """Return what was handed in."""
    mailbox = Mailbox(store)
    found = [mailbox.entry(waiting.entry) for waiting in mailbox.pending()]
    return [entry for entry in found if entry is not None]


async def test_every_answer_has_the_security_headers(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """Pages, files, refusals and errors alike."""
    assert store.path
    async with opened(path) as client:
        answers = [
            await client.get("/"),
            await client.get("/run", params={"id": RUN}),
            await client.get("/run.json", params={"id": RUN}),
            await client.get("/static/console.js"),
            await client.get("/static/picture.css"),
            await client.get("/nothing"),
            await client.get("/", headers={"host": "evil.example"}),
            await client.post("/answer", data=ANSWER),
        ]
    for answer in answers:
        assert SECURITY_HEADERS.items() <= dict(answer.headers).items(), answer.url


def test_the_policy_lets_nothing_in_but_the_console_s_own_files() -> None:
    """No inline script or style, no other host, no frame; forms only to the console."""
    policy = SECURITY_HEADERS["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    assert set(rules.values()) == {"'self'", "'none'"}
    assert rules["script-src"] == rules["form-action"] == "'self'"
    assert rules["frame-ancestors"] == rules["base-uri"] == "'none'"


async def test_another_name_for_this_machine_reaches_nothing(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """A page whose name was pointed at 127.0.0.1 says its own name in `Host`."""
    assert store.path
    async with opened(path, token=TOKEN) as client:
        for host in (
            "evil.example",
            "evil.example:8321",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1:8321.evil.example",
            "127.0.0.1.evil.example:8321",
            "[::1]:8321",
            "",
        ):
            for method in ("GET", "POST"):
                answer = await client.request(method, "/", headers={"host": host})
                assert answer.status_code == 421, host
                assert RUN not in answer.text
        assert (await client.get("/", headers={"host": "LocalHost:8321"})).status_code == 200


async def test_a_request_without_a_host_or_with_two_is_refused(path: Path) -> None:
    """HTTP 1.0 lets it be missing, and of two somebody else may read the other."""
    console = Console(path)
    for hosts in ([], [b"127.0.0.1:8321", b"127.0.0.1:8321"]):
        sent: list[dict[str, object]] = []

        async def keep(message: dict[str, object], sent: list[dict[str, object]] = sent) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "raw_path": b"/",
            "query_string": b"",
            "headers": [(b"host", host) for host in hosts],
            "server": ("127.0.0.1", 8321),
        }
        await console.app(scope, None, keep)  # type: ignore[arg-type]  # nothing is received
        assert sent[0]["status"] == 421
    await console.close()


async def test_without_a_token_only_questions_are_answered(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """Every other method is refused, whatever it carries, and nothing is handed in."""
    async with opened(path) as client:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            for address in ("/", "/answer", "/settle", "/run", "/nothing"):
                answer = await client.request(method, address, data=ANSWER, headers=OWN)
                assert answer.status_code == 405, (method, address)
                assert answer.headers["allow"] == "GET, HEAD"
        assert "form" not in set((await page(client, "/run", id=RUN)).tags)
        assert "read-only" in (await page(client, "/")).text
    assert entries(store) == []


async def test_with_a_token_only_its_two_routes_take_a_post(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """And those two are no pages."""
    async with opened(path, token=TOKEN) as client:
        for address in ("/", "/run", "/drift", "/run.json", "/events"):
            answer = await client.post(address, data=ANSWER, headers=OWN)
            assert answer.status_code == 405, address
        for address in ("/answer", "/settle"):
            assert (await client.get(address)).status_code == 405
        assert (await client.put("/answer", data=ANSWER, headers=OWN)).status_code == 405
    assert entries(store) == []


async def test_a_gate_is_answered_with_the_token(path: Path, store: SqliteSnapshotStore) -> None:
    """The answer is on disk before it is said to wait, and the page shows that it does."""
    async with opened(path, token=TOKEN) as client:
        form = ANSWER | {"data": '{"by": "Kim"}'}
        answer = await client.post("/answer", data=form, headers=OWN)
        assert answer.status_code == 303
        (entry,) = entries(store)
        assert (entry.run_id, entry.kind) == (RUN, "answer")
        assert json.loads(entry.data) == {
            "gate": "approval",
            "event": "approve",
            "data": {"by": "Kim"},
        }
        shown = await client.get(answer.headers["location"])
        assert "Waits for a host." in shown.text
        Mailbox(store).settle([entry.entry], "refused: the gate <b> is closed")
        found = Page((await client.get(answer.headers["location"])).text)
        assert "Refused: the gate <b> is closed" in found.text
        again = await client.post("/answer", data=ANSWER, headers=OWN)
        (second,) = entries(store)
        Mailbox(store).settle([second.entry], "taken")
        assert "Taken." in (await client.get(again.headers["location"])).text


async def test_an_effect_in_doubt_is_settled_with_the_token(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """In each of the three ways, with the attempt that the page showed."""
    async with opened(path, token=TOKEN) as client:
        for how, value, kept in (
            ("done", '{"receipt": 7}', {"done": {"receipt": 7}}),
            ("done", "", {"done": None}),
            ("failed", "the bank says no", {"failed": "the bank says no"}),
            ("again", "", {"again": True}),
        ):
            form = SETTLE | {"how": how, "value": value}
            answer = await client.post("/settle", data=form, headers=OWN)
            assert answer.status_code == 303, answer.text
            query = parse_qs(urlsplit(answer.headers["location"]).query)
            assert query["id"] == [RUN]
            entry = entries(store)[-1]
            assert entry.kind == "resolve"
            assert json.loads(entry.data) == {"effect": SETTLE["effect"], "attempt": 1} | kept


@pytest.mark.parametrize(
    "token", [None, "", "x", TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), f" {TOKEN}", "\u00e9" * 20]
)
async def test_any_other_token_is_refused(
    path: Path, store: SqliteSnapshotStore, token: str | None
) -> None:
    """Nothing is handed in, and the answer does not say the token."""
    form = {name: value for name, value in ANSWER.items() if name != "token"}
    async with opened(path, token=TOKEN) as client:
        given = form if token is None else form | {"token": token}
        answer = await client.post("/answer", data=given, headers=OWN)
    assert answer.status_code == 403
    assert TOKEN not in answer.text
    assert entries(store) == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1:8321"},
        {"origin": "http://localhost:8321"},
        {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
        {"origin": ORIGIN, "sec-fetch-site": "same-site"},
    ],
)
async def test_the_page_of_another_origin_hands_nothing_in(
    path: Path, store: SqliteSnapshotStore, headers: dict[str, str]
) -> None:
    """Even if it had the token: a browser says whose page a form is on."""
    async with opened(path, token=TOKEN) as client:
        answer = await client.post("/answer", data=ANSWER, headers=headers)
    assert answer.status_code == 403
    assert entries(store) == []


async def test_another_site_s_page_may_not_listen(path: Path, store: SqliteSnapshotStore) -> None:
    """It could not read the news, but take up the room of those who may."""
    assert store.path
    async with opened(path) as client:
        for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}):
            assert (await client.get("/events", headers=headers)).status_code == 403


@pytest.mark.parametrize(
    ("address", "changes", "expected"),
    [
        ("/answer", {"gate": ""}, (400, "gate")),
        ("/answer", {"event": " "}, (400, "event")),
        ("/answer", {"run": ""}, (400, "run")),
        ("/answer", {"data": "[1]"}, (400, "no object")),
        ("/answer", {"data": "{"}, (400, "no JSON")),
        ("/answer", {"run": "zz"}, (404, "not in")),
        ("/settle", {"how": "later"}, (400, "done, failed or again")),
        ("/settle", {"how": "failed", "value": ""}, (400, "value")),
        ("/settle", {"how": "done", "value": "{"}, (400, "no JSON")),
        ("/settle", {"effect": "nothing"}, (409, "has no effect")),
        ("/settle", {"effect": f"{RUN}//asking.0"}, (409, "only an effect in doubt")),
        ("/settle", {"attempt": "0"}, (409, "called again since")),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason(
    path: Path,
    store: SqliteSnapshotStore,
    address: str,
    changes: dict[str, str],
    expected: tuple[int, str],
) -> None:
    """Before anything is handed in."""
    status, said = expected
    async with opened(path, token=TOKEN) as client:
        form = (ANSWER if address == "/answer" else SETTLE) | changes
        answer = await client.post(address, data=form, headers=OWN)
    assert answer.status_code == status
    assert said in Page(answer.text).text
    assert entries(store) == []


async def test_a_run_that_has_ended_takes_nothing(path: Path, store: SqliteSnapshotStore) -> None:
    """It says so at once, and its page has no form."""
    store.mark(store.load(RUN).header, "lost", "its world was gone")
    async with opened(path, token=TOKEN) as client:
        answer = await client.post("/answer", data=ANSWER, headers=OWN)
        assert answer.status_code == 409
        assert "expected a live run" in Page(answer.text).text
        assert "/answer" not in (await page(client, "/run", id=RUN)).values("form", "action")
    assert entries(store) == []


async def test_a_body_that_is_no_form_of_ours_is_refused(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """Too long, of another type, a field twice, too many, or not to be read."""
    form = {"content-type": "application/x-www-form-urlencoded", **OWN}
    fields = "&".join(f"{name}={value}" for name, value in ANSWER.items())
    async with opened(path, token=TOKEN) as client:
        for headers, body in (
            (form, fields + "&data=" + "x" * CONSOLE_BODY_BYTES_MAX),
            (form | {"content-type": "application/json"}, json.dumps(ANSWER)),
            (form | {"content-type": "text/plain"}, fields),
            (OWN, fields),
            (form, f"{fields}&token={TOKEN}"),
            (form, fields + "".join(f"&f{number}=1" for number in range(40))),
            (form, "token"),
            (form, fields + "&data=%ff"),
            (form, fields.encode() + b"&data=\xff"),
        ):
            answer = await client.post("/answer", content=body, headers=headers)
            assert answer.status_code == 400, body[:80]
    assert entries(store) == []


async def test_an_address_too_long_is_refused(path: Path, store: SqliteSnapshotStore) -> None:
    """Before anything is made of it."""
    assert store.path
    async with opened(path) as client:
        assert (await client.get("/?q=" + "x" * CONSOLE_URL_CHARS_MAX)).status_code == 414
        assert (await client.get("/?q=" + "x" * (CONSOLE_URL_CHARS_MAX // 2))).status_code == 200


async def test_a_page_for_the_token_asks_for_it(path: Path, store: SqliteSnapshotStore) -> None:
    """In a field that no browser fills in or shows; the token itself stands nowhere."""
    assert store.path
    async with opened(path, token=TOKEN) as client:
        answer = await client.get("/run", params={"id": RUN})
    found = Page(answer.text)
    assert TOKEN not in answer.text
    assert found.values("form", "action") == ["/settle", "/answer"]
    assert set(found.values("form", "method")) == {"post"}
    fields = [value for tag, name, value in found.attributes if (tag, name) == ("input", "type")]
    assert fields.count("password") == 2


async def test_the_token_is_never_logged(
    path: Path, store: SqliteSnapshotStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the right one nor a wrong one, whatever is logged of a request."""
    assert store.path
    caplog.set_level(logging.DEBUG)
    async with opened(path, token=TOKEN) as client:
        await client.post("/answer", data=ANSWER, headers=OWN)
        await client.post("/answer", data=ANSWER | {"token": "wrong-but-secret"}, headers=OWN)
    assert TOKEN not in caplog.text
    assert "wrong-but-secret" not in caplog.text


def test_a_token_that_can_be_guessed_is_refused(path: Path) -> None:
    """At the least length it is taken, one below it is not; nor is one that no form can send."""
    for token in (
        "",
        "x" * (CONSOLE_TOKEN_CHARS_MIN - 1),
        "x" * (CONSOLE_TOKEN_CHARS_MAX + 1),
        "x" * 20 + " y",
        "x" * 20 + "\n",
        "\u00e9" * 20,
    ):
        with pytest.raises(TokenError) as caught:
            Console(path, token=token)
        assert not token or token not in str(caught.value)


async def test_a_client_that_is_no_browser_needs_no_fetch_metadata(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """`curl` with the token and the origin hands in as a form does."""
    async with opened(path, token=TOKEN) as client:
        client.headers = httpx.Headers({"host": "127.0.0.1:8321", "origin": ORIGIN})
        assert (await client.post("/answer", data=ANSWER)).status_code == 303
    assert len(entries(store)) == 1
