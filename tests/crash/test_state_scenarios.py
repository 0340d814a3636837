"""The claims about state beside the runs have teeth: altered logs and rows are found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from machines.demo.killer import FILE, LOG, Siege
from machines.demo.log import Log
from machines.demo.outside.decider import BEFORE, DECIDED, LATE, UNKNOWN, decide
from machines.demo.results import Result
from machines.demo.scenario import Case
from machines.demo.scenarios import SCENARIOS
from machines.demo.scenarios.triage import People
from machines.demo.witness import Witness
from tests.crash.cases import case_of, claims

Entries = list[dict[str, Any]]
RUNS = 2
SEED = 2


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """Return what runs a story with a kill, once."""
    told: dict[str, Result] = {}

    def tell(name: str) -> Result:
        if name not in told:
            folder = tmp_path_factory.mktemp(name)
            siege = Siege(scenario=SCENARIOS[name], folder=folder, kills=1, runs=RUNS, seed=SEED)
            told[name] = siege.lay()
        return told[name]

    return tell


Altered = Callable[[str, Callable[[Entries], object]], Case]


@pytest.fixture
def altered(stories: Callable[[str], Result], tmp_path: Path) -> Altered:
    """Return what gives the case of a story whose log was changed."""

    def alter(name: str, change: Callable[[Entries], object]) -> Case:
        result = stories(name)
        assert result.is_good, [check for check in result.checks if check.found]
        folder = Path(shutil.copytree(result.file.parent, tmp_path / "copy"))
        log = folder / LOG
        entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        change(entries)
        log.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")
        scenario = SCENARIOS[name]
        witness = Witness(folder / FILE, Log(log), cyclic=scenario.cyclic)
        case = case_of(scenario, witness, RUNS)
        witness.examine([planned.run for planned in case.outsiders.plan])
        if isinstance(case.bystanders, People):
            for row in witness.rows.values():
                case.bystanders.told[row.view.run_id, row.view.context["by"]] = DECIDED
        return case

    return alter


def first(entries: Entries, **fields: object) -> dict[str, Any]:
    """Return the first entry with these fields."""
    return next(e for e in entries if all(e.get(name) == said for name, said in fields.items()))


def repeat(**fields: object) -> Callable[[Entries], object]:
    """Return what has something happen again, under another key."""
    return lambda entries: entries.append(first(entries, **fields) | {"key": "another"})


@pytest.mark.parametrize("name", ["incident", "triage", "etl", "poll", "sentinel"])
def test_what_really_happened_is_not_complained_about(altered: Altered, name: str) -> None:
    """Every claim holds of what was really left."""
    assert not any(claims(altered(name, lambda _: None)).values())


@pytest.mark.parametrize(
    ("name", "what", "claim"),
    [
        ("incident", "message", "alerts not paged exactly once"),
        ("incident", "resolved", "alerts whose end was not told under their message"),
        ("triage", "answer", "tickets not answered once, by who decided"),
        ("poll", "handle", "items not handled exactly once"),
    ],
)
def test_what_happened_twice_is_found(altered: Altered, name: str, what: str, claim: str) -> None:
    """Under another key, as by a run that should not have been begun."""
    assert len(claims(altered(name, repeat(what=what)))[claim]) == 1


def test_an_end_under_the_message_of_another_alert_is_found(altered: Altered) -> None:
    """A "resolved" that has found the wrong incident."""

    def cross(entries: Entries) -> None:
        first(entries, what="resolved")["details"]["message"] = "message-9999"

    found = claims(altered("incident", cross))
    assert len(found["alerts whose end was not told under their message"]) == 1


def test_a_ticket_that_two_have_decided_is_found(altered: Altered) -> None:
    """Both were told that theirs counts."""
    case = altered("triage", lambda _: None)
    assert isinstance(case.bystanders, People)
    case.bystanders.told["mail-1", "eve"] = DECIDED
    found = claims(case)
    assert len(found["tickets that not exactly one person decided"]) == 1
    assert len(found["tickets not answered once, by who decided"]) == 1


def test_who_decides_by_key_is_told_what_came_of_it(stories: Callable[[str], Result]) -> None:
    """The one who was first, the one who was not, and the one who means another ticket."""
    result = stories("triage")
    rows = Witness(result.file, Log(result.file.parent / LOG)).read(["mail-1"])
    by = rows["mail-1"].view.context["by"]
    assert decide(str(result.file), "ticket-1", "approve", by) == BEFORE
    assert decide(str(result.file), "ticket-1", "approve", "eve") == LATE
    assert decide(str(result.file), "ticket-99", "approve", by) == UNKNOWN


def test_a_load_beside_another_is_found(altered: Altered) -> None:
    """Somebody else reads between two readings of one load, under the token of before."""

    def come_between(entries: Entries) -> None:
        at = entries.index([entry for entry in entries if entry.get("note") == "prices"][1])
        entries.insert(at, entries[at] | {"by": "another", "token": 0})

    found = claims(altered("etl", come_between))
    assert found["loads at work beside another one"]


def test_a_cursor_that_goes_back_is_found(altered: Altered) -> None:
    """A page of prices, and one of items, that is read again after the next one."""

    def go_back(entries: Entries) -> None:
        entries.append(first(entries, note="prices") | {"token": 10_000, "by": "last"})

    found = claims(altered("etl", go_back))
    assert len(found["readings from before the cursor"]) == 1


def test_a_page_of_items_that_is_read_again_is_found(altered: Altered) -> None:
    """Its cursor had gone on before."""
    case = altered("poll", lambda entries: entries.append(first(entries, note="items")))
    assert len(claims(case)["pages from before the cursor"]) == 1


def test_a_price_that_was_not_written_is_found(altered: Altered) -> None:
    """It was read, and is not there."""

    def read_more(entries: Entries) -> None:
        first(entries, note="prices")["ats"].append(1_000)

    assert claims(altered("etl", read_more))["prices not written exactly once"]


def test_a_wake_that_lost_the_thread_is_found(altered: Altered) -> None:
    """It found another revision than there was, and what it found was not migrated."""
    case = altered("sentinel", lambda _: None)
    wake = case.witness.rows["levels-2"].view.context
    wake["revision"], wake["migrated"] = 0, None
    found = claims(case)
    assert len(found["revisions left out, or saved twice"]) == 1
    assert len(found["migrations left out, or made twice"]) == 1


def test_a_level_that_nobody_showed_is_found(altered: Altered) -> None:
    """And the change that was not told."""
    case = altered("sentinel", lambda _: None)
    case.witness.rows["levels-2"].view.context["levels"]["rhine"] = 77
    assert claims(case)["levels that were not handed on"]


def test_a_change_that_was_not_told_is_found(altered: Altered) -> None:
    """A wake that found one, without an alert."""
    case = altered("sentinel", lambda _: None)
    case.witness.rows["levels-1"].view.context["changed"] = ["main"]
    assert claims(case)["changes not told exactly once"] == (
        "levels-1: told of [], and ['main'] had changed",
    )
