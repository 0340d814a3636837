"""The verdicts of the scenarios have teeth: a fault that one looks for is found when it is there.

Each story is really run, with a kill; then a copy of what it left is tampered with.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from machines.demo.command import Story
from machines.demo.killer import FILE, LOG, Siege
from machines.demo.log import Log
from machines.demo.results import Result
from machines.demo.scenario import Case, Scenario
from machines.demo.scenarios import SCENARIOS
from machines.demo.scenarios.approval import APPROVAL, OFFICES
from machines.demo.scenarios.pool import POOL
from machines.demo.scenarios.reattach import REATTACH, Mark, Watchers
from machines.demo.witness import Witness
from tests.crash.cases import SEED, case_of, claims

Entries = list[dict[str, Any]]


def run_story(scenario: Scenario, folder: Path) -> Result:
    """Run one story with one run and one kill."""
    siege = Siege(scenario=scenario, folder=folder, kills=1, runs=1, seed=SEED, verify=True)
    return siege.lay()


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Scenario], Result]:
    """Return what runs a story, once."""
    told: dict[str, Result] = {}

    def tell(scenario: Scenario) -> Result:
        if scenario.name not in told:
            folder = tmp_path_factory.mktemp(scenario.name)
            told[scenario.name] = run_story(scenario, folder)
        return told[scenario.name]

    return tell


Tampered = Callable[[Scenario, Callable[[Entries], object]], Case]


@pytest.fixture
def tampered(stories: Callable[[Scenario], Result], tmp_path: Path) -> Tampered:
    """Return what gives the case of a story whose log was changed."""

    def tamper(scenario: Scenario, change: Callable[[Entries], object]) -> Case:
        result = stories(scenario)
        assert result.is_good
        folder = Path(shutil.copytree(result.file.parent, tmp_path / "copy"))
        with altered(folder / LOG) as entries:
            change(entries)
        witness = Witness(folder / FILE, Log(folder / LOG), cyclic=scenario.cyclic)
        case = case_of(scenario, witness, 1)
        witness.examine([planned.run for planned in case.outsiders.plan])
        return case

    return tamper


@contextmanager
def altered(log: Path) -> Iterator[Entries]:
    """Give the entries of a log to be changed."""
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    yield entries
    log.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")


def first(entries: Entries, **fields: object) -> dict[str, Any]:
    """Return the first entry with these fields."""
    return next(e for e in entries if all(e.get(name) == said for name, said in fields.items()))


def nothing(entries: Entries) -> None:
    """Leave a log as it is."""


def test_every_scenario_can_be_named_on_the_command_line() -> None:
    """The option of the demo knows the scenarios that there are, and no other."""
    assert [story.value for story in Story] == list(SCENARIOS)


# -- the pool -----------------------------------------------------------------------------------


def test_a_pool_that_worked_as_it_should_is_not_complained_about(tampered: Tampered) -> None:
    """Every claim holds of what was really left."""
    assert not any(claims(tampered(POOL, nothing)).values())


def test_a_task_that_was_done_twice_is_found(tampered: Tampered) -> None:
    """Under another key too: what counts is which task it was."""
    case = tampered(POOL, lambda e: e.append(first(e, what="work") | {"key": "other"}))
    (found,) = claims(case)["tasks worked twice"]
    assert found.endswith(": 2 times")


def test_a_task_that_was_never_done_is_found(tampered: Tampered) -> None:
    """The pool has its outcome, and nobody did it: it is forgotten, and its outcome is wrong."""
    found = claims(tampered(POOL, lambda e: e.remove(first(e, what="work"))))
    assert len(found["tasks forgotten"]) == 1
    assert len(found["outcomes that are not what was done"]) == 1


def test_a_task_without_an_outcome_is_found(tampered: Tampered) -> None:
    """It was done, and the pool does not know of it."""
    case = tampered(POOL, nothing)
    case.witness.rows["backlog-1"].view.context["outcomes"].popitem()
    (found,) = claims(case)["tasks forgotten"]
    assert found.endswith("done, and not among the outcomes")


# -- the job elsewhere --------------------------------------------------------------------------


def followed(tampered: Tampered, change: Callable[[Entries], object], *marks: Mark) -> Case:
    """Return the case of a job, with what was on disk at each kill."""
    case = tampered(REATTACH, change)
    assert isinstance(case.bystanders, Watchers)
    if marks:
        case.bystanders.marks["rendering-1"] = list(marks)
    return case


def only_one_reader(entries: Entries) -> None:
    """Have everything been read by one host."""
    for entry in entries:
        if entry.get("note") == "read":
            entry["term"] = 1


def test_a_job_that_was_followed_as_it_should_is_not_complained_about(tampered: Tampered) -> None:
    """Every claim holds of what was really left, but for the kill that is not told here."""
    found = claims(followed(tampered, only_one_reader))
    assert not any(found.values())


def test_a_job_that_was_posted_twice_is_found(tampered: Tampered) -> None:
    """Under another key, as by a follower that forgot its admission."""

    def post_again(entries: Entries) -> None:
        entries.append(first(entries, what="render") | {"key": "other"})

    (found,) = claims(followed(tampered, post_again))["jobs posted twice"]
    assert found == "rendering-1: 2 jobs"


def test_a_job_that_is_asked_for_again_after_it_was_on_record_is_found(tampered: Tampered) -> None:
    """Even under the same key, where the studio begins no second one."""

    def ask_again(entries: Entries) -> None:
        entries.append(first(entries, what="render") | {"entry": 10_000, "happened": False})

    found = claims(followed(tampered, ask_again, Mark(entries=9_999, offset=0)))
    assert len(found["jobs asked for again although on record"]) == 1
    assert found["jobs posted twice"] == ()


def test_scenes_that_were_skipped_are_found(tampered: Tampered) -> None:
    """A reading that begins behind the end of the one before it."""

    def skip(entries: Entries) -> None:
        only_one_reader(entries)
        entries.remove([entry for entry in entries if entry.get("note") == "read"][1])

    assert len(claims(followed(tampered, skip))["scenes skipped, or read out of order"]) == 1


def test_a_follower_that_begins_elsewhere_is_found(tampered: Tampered) -> None:
    """What was on disk at the kill before it says where it has to begin."""
    found = claims(followed(tampered, only_one_reader, Mark(entries=0, offset=3)))
    (astray,) = found["followers that did not begin at the saved offset"]
    assert astray.endswith("began at 0, and 3 was on disk")


def test_a_film_that_is_not_whole_is_found(tampered: Tampered) -> None:
    """A scene twice, which another one lacks."""
    case = followed(tampered, only_one_reader)
    scenes = case.witness.rows["rendering-1"].view.context["scenes"]
    scenes[5] = scenes[4]
    assert len(claims(case)["films that are not whole"]) == 1


def test_a_run_whose_job_was_dropped_has_to_be_lost(tampered: Tampered) -> None:
    """One that goes on to its end as if nothing had happened is not right."""
    drop = {"entry": 10_000, "note": "dropped", "film": "rendering-1"}
    found = claims(followed(tampered, lambda entries: entries.append(drop)))
    assert found["runs stuck"] == ("rendering-1: done",)


# -- the gates ----------------------------------------------------------------------------------


def answered(tampered: Tampered, *told: tuple[str, str, str]) -> dict[str, tuple[str, ...]]:
    """Return what is found if approvers were told this, by office, and ann by the others."""
    case = tampered(APPROVAL, nothing)
    signed = case.witness.rows["release-1"].view.context["signed"]
    honest = [(office, signed[office], "done") for office in OFFICES]
    offices = {office for office, _, _ in told}
    for office, who, outcome in (*told, *(one for one in honest if one[0] not in offices)):
        case.outsiders.told["release-1", "gate", f"collecting.@{office}/waiting", who] = outcome
    return claims(case)


def test_gates_that_were_won_once_each_are_not_complained_about(tampered: Tampered) -> None:
    """Every claim holds of what was really left."""
    assert not any(answered(tampered).values())


def test_a_gate_that_two_have_won_is_found(tampered: Tampered) -> None:
    """Both were told that theirs counts; one of them is not on paper."""
    found = answered(tampered, ("legal", "ann", "done"), ("legal", "bob", "taken"))
    assert found["gates that not exactly one approver won"] == (
        "release-1, legal: ann and bob won",
    )
    assert len(found["approvers told that they won, and another is on paper"]) == 1


def test_a_gate_that_nobody_has_won_is_found(tampered: Tampered) -> None:
    """Both were told that they came too late."""
    late = "GateClosedError"
    found = answered(tampered, ("budget", "ann", late), ("budget", "bob", "refused"))
    assert found["gates that not exactly one approver won"] == ("release-1, budget: nobody won",)
