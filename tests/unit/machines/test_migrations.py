"""What is refused of migrations at once, how they are chained, and what they make of a blob."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import DefinitionError, Draft, Machine, Migration, MigrationRefusedError
from machines.migrations import chain, route
from machines.recovery.blobs import UnfitError, charts_of
from machines.recovery.dropping import drop_states, drop_work
from machines.recovery.form import check_form
from machines.recovery.renaming import rename_states

A, B, C, D = ("a" * 12, "b" * 12, "c" * 12, "d" * 12)


class Door(StateChart):
    """Opens and closes."""

    shut = State(initial=True)
    ajar = State(final=True)
    push = shut.to(ajar)


TODAY = Machine(Door).digest


def door(*migrations: Any) -> Machine:
    """Return the machine of a door with these migrations."""
    return Machine(Door, migrations=migrations)


# -- definitions --------------------------------------------------------------------------------


async def coroutine(draft: Draft) -> None:
    """Do what no migration can wait for."""


@pytest.mark.parametrize(
    "make",
    [
        lambda: Migration("abc"),
        lambda: Migration("A" * 12),
        lambda: Migration(7),
        lambda: Migration(A, to_digest="today"),
        lambda: Migration(A, "function"),
        lambda: Migration(A, coroutine),
        lambda: Migration(A, states=["review"]),
        lambda: Migration(A, states={"review": 7}),
        lambda: Migration(A, states={"review": ""}),
        lambda: Migration(A, children={"Door": None}),
        lambda: Migration(A, children={"Door": {7: "a"}}),
        lambda: Migration(A, children=["Door"]),
    ],
)
def test_a_migration_that_makes_no_sense_is_refused(make: Any) -> None:
    """No digest, no plain function, no map of names: said when it is made."""
    with pytest.raises(DefinitionError, match="migration from"):
        make()


@pytest.mark.parametrize(
    ("migrations", "said"),
    [
        ([Migration(A), Migration(A)], "two migrations begin at"),
        ([Migration(A, to_digest=B)], f"ends at '{B}'"),
        ([Migration(A, to_digest=B), Migration(B, to_digest=C)], f"ends at '{C}'"),
        ([Migration(A, to_digest=A)], "leads to the same shape"),
        ([Migration(TODAY)], "leads to the same shape"),
        ([Migration(A, to_digest=B), Migration(B, to_digest=A)], "comes back to"),
        (
            [Migration(A, to_digest=B), Migration(B, to_digest=C), Migration(C, to_digest=B)],
            "comes back to",
        ),
        ([Migration(A, states={"old": "nowhere"})], "'nowhere'"),
        ([A], "is no migration"),
    ],
)
def test_migrations_that_do_not_lead_to_todays_shape_are_refused(
    migrations: list[Any], said: str
) -> None:
    """A chain that ends elsewhere, or goes round: said when the machine is made."""
    with pytest.raises(DefinitionError, match=said):
        door(*migrations)


def test_a_way_back_may_lie_beside_the_way_forth() -> None:
    """A deploy that is rolled back has both: what begins at today's shape is not needed now."""
    machine = door(Migration(A), Migration(TODAY, to_digest=A))
    assert chain(machine.migrations, TODAY, TODAY) == ()
    assert [step.from_digest for step in chain(machine.migrations, A, TODAY)] == [A]


def test_a_chain_leads_from_each_of_its_digests() -> None:
    """From where the row is; nothing leads on from a digest that is not named."""
    first = Migration(A, to_digest=B)
    second = Migration(B, to_digest=C)
    third = Migration(C)
    machine = door(third, first, second)
    assert chain(machine.migrations, A, TODAY) == (first, second, third)
    assert chain(machine.migrations, C, TODAY) == (third,)
    assert chain(machine.migrations, D, TODAY) == ()
    assert route((first, second, third), TODAY) == f"{A} → {B} → {C} → {TODAY}"


def test_a_refusal_survives_pickling() -> None:
    """Its fields and its message come through, as of every error here."""
    error = MigrationRefusedError("run-1", "Door", f"{A} → {B}", "its function raised")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(again), again.fields) == (str(error), error.fields)
    for part in ("'run-1'", "'Door'", A, "its function raised", "try again"):
        assert part in str(error)


# -- drafts -------------------------------------------------------------------------------------


def test_a_draft_is_the_blob_itself() -> None:
    """Its parts are those of the blob, made where they were left out; setting one sets it there."""
    value: dict[str, Any] = {"run": "run-1", "root": {"context": {"a": 1}}}
    draft = Draft(value)
    draft.context["b"] = 2
    draft.configuration = ["shut"]
    draft.timers.append({"id": "late"})
    assert draft.run_id == "run-1"
    assert (draft.history, draft.effects, draft.input) == ({}, [], {})
    assert value["root"]["context"] == {"a": 1, "b": 2}
    assert value["root"]["configuration"] == ["shut"]
    assert value["timers"] == [{"id": "late"}]


# -- blobs --------------------------------------------------------------------------------------


def node(**parts: Any) -> dict[str, Any]:
    """Return a chart of a blob."""
    return {
        "class": "Chart",
        "engine": "sync",
        "status": "active",
        "started": True,
        "spawned": 9,
        **parts,
    }


def work(invoke: str, state: str, kind: str = "call", **parts: Any) -> dict[str, Any]:
    """Return an invocation of a blob."""
    return {"id": invoke, "state": state, "index": 0, "kind": kind, "attempt": 1, **parts}


def event(said: str, seq: int, **parts: Any) -> dict[str, Any]:
    """Return a queued event of a blob."""
    return {"event": said, "name": said, "at": 1, "seq": seq, **parts}


def row(run: str, path: str, invoke: str, status: str = "done", **parts: Any) -> dict[str, Any]:
    """Return a row of the effect ledger of a blob, with all its fields."""
    name = "/".join(part for part in (run, path, invoke) if part)
    return {
        "id": name,
        "node": path,
        "invoke": invoke,
        "kind": "pay",
        "key": name,
        "status": status,
        "attempt": 1,
        "at": 1,
        **parts,
    }


def blob() -> dict[str, Any]:
    """Return a blob with a child below a child, and something of everything."""
    leaf = node(
        **{"class": "Leaf"},
        configuration=["pays"],
        invokes=[
            work("pays.3", "pays", "effect"),
            work("pays.4", "pays", "gate", key="a.1/job/pays"),
        ],
        queue=[
            event("error.indoubt.pays", 4, kwargs={"effect": "r/a.1/job/pays.3", "error": None})
        ],
    )
    middle = node(
        configuration=["b"],
        invokes=[work("job", "b", "child")],
        floors={"job": 5, "b.@": 7, "other": 1},
        children={"job": leaf},
        queue=[event("told", 5, kwargs={"_invokeid": "job"})],
    )
    root = node(
        configuration=["p", "a", "z"],
        history={"h": ["a", "z"]},
        final="p",
        invokes=[
            work("a.1", "a", "child"),
            work("z.2", "z", "timeout"),
            work("z.5", "z", "gate", key="z"),
            work("z.@ann", "z"),
            work("a.7", "z"),
        ],
        pending=[{"id": "z.6", "state": "z", "index": 2, "order": 3}],
        queue=[
            event("done.invoke.z.2", 1, invoke="z.2"),
            event("done.invoke.z", 2),
            event("note", 3, name="a note", kwargs={"_invokeid": "a.1"}),
            event("done.state.p", 6),
        ],
        children={"a.1": middle},
    )
    return {
        "v": 1,
        "run": "r",
        "machine": "Chart",
        "digest": A,
        "input": {},
        "step": 3,
        "root": root,
        "clock": {"seq": 20, "stamp": 1},
        "turn": ["", "a.1/job", "a.1"],
        "between": True,
        "timers": [
            {"id": "z.2", "node": "", "due": 9, "seq": 7, "policy": "deadline", "invoke": "z.2"},
            {
                "id": "x.8",
                "node": "a.1/job",
                "due": 9,
                "seq": 8,
                "policy": "deadline",
                "event": "x",
            },
        ],
        "arrivals": [
            {"node": "a.1/job", "invoke": "pays.3", "item": event("done.invoke.pays.3", 21)},
            {"node": "", "item": event("done.invoke.z.@ann", 22)},
        ],
        "effects": [
            row("r", "a.1/job", "pays.3", "calling"),
            row("r", "a.0/pays.9", "pays.2", tail="receipt"),
            row("r", "", "z.1", "failed"),
        ],
        "admissions": {"z.6": {"handle": 1, "offset": 0, "at": 1}, "free": {"handle": 2}},
        "notices": {"source": {"delivered": "a.1/job/pays.3", "at": 1}},
        "pushes": {"slot": [{"id": "a.1/job/pays.3", "commit": "c"}, {"id": "7"}]},
        "deliveries": ["z.2"],
        "trail": [[1, "", "go", ["y"], ["z"]]],
    }


def without_ledgers(value: dict[str, Any]) -> dict[str, Any]:
    """Return a blob without the made-up rows that only stand for a key."""
    ledgers = ("admissions", "notices", "pushes")
    return {key: part for key, part in value.items() if key not in ledgers}


RENAMES = {"": {"z": "omega", "a": "alpha", "p": "pi"}, "a.1/job": {"pays": "bills"}}


def test_a_name_is_renamed_wherever_it_occurs() -> None:
    """States, ids, paths, events, keys of ledgers; what is history or is named otherwise stays."""
    value = blob()
    check_form("r", without_ledgers(value))
    rename_states(value, RENAMES)
    check_form("r", without_ledgers(value))
    root = value["root"]
    assert root["configuration"] == ["pi", "alpha", "omega"]
    assert root["history"] == {"h": ["alpha", "omega"]}
    assert root["final"] == "pi"
    ids = ["alpha.1", "omega.2", "omega.5", "omega.@ann", "a.7"]
    assert [one["id"] for one in root["invokes"]] == ids
    assert [one["state"] for one in root["invokes"]] == ["alpha"] + 4 * ["omega"]
    assert root["invokes"][2]["key"] == "omega"
    assert root["pending"] == [{"id": "omega.6", "state": "omega", "index": 2, "order": 3}]
    assert [(one["event"], one["name"]) for one in root["queue"]] == [
        ("done.invoke.omega.2", "done.invoke.omega.2"),
        ("done.invoke.omega", "done.invoke.omega"),
        ("note", "a note"),
        ("done.state.pi", "done.state.pi"),
    ]
    assert root["queue"][0]["invoke"] == "omega.2"
    assert root["queue"][2]["kwargs"] == {"_invokeid": "alpha.1"}
    charts = charts_of(value)
    assert list(charts) == ["", "alpha.1", "alpha.1/job"]
    assert charts["alpha.1"]["floors"] == {"job": 5, "b.@": 7, "other": 1}
    assert charts["alpha.1/job"]["invokes"][1]["key"] == "alpha.1/job/bills"
    (doubt,) = charts["alpha.1/job"]["queue"]
    assert doubt["event"] == "error.indoubt.bills"
    assert doubt["kwargs"]["effect"] == "r/alpha.1/job/bills.3"
    assert value["turn"] == ["", "alpha.1/job", "alpha.1"]
    assert [(one["node"], one["id"]) for one in value["timers"]] == [
        ("", "omega.2"),
        ("alpha.1/job", "x.8"),
    ]
    assert value["timers"][0]["invoke"] == "omega.2"
    assert [(one["node"], one.get("invoke")) for one in value["arrivals"]] == [
        ("alpha.1/job", "bills.3"),
        ("", None),
    ]
    assert [one["item"]["event"] for one in value["arrivals"]] == [
        "done.invoke.bills.3",
        "done.invoke.omega.@ann",
    ]
    assert [one["id"] for one in value["effects"]] == [
        "r/alpha.1/job/bills.3",
        "r/alpha.0/pays.9/pays.2",
        "r/omega.1",
    ]
    assert [one["key"] for one in value["effects"]] == [one["key"] for one in blob()["effects"]]
    assert list(value["admissions"]) == ["omega.6", "free"]
    assert value["notices"]["source"]["delivered"] == "alpha.1/job/bills.3"
    assert [one["id"] for one in value["pushes"]["slot"]] == ["alpha.1/job/bills.3", "7"]
    for kept in ("deliveries", "trail", "clock", "between"):
        assert value[kept] == blob()[kept]


def test_names_that_stay_change_nothing() -> None:
    """A renaming of nothing leaves the blob as it was."""
    value = blob()
    rename_states(value, {})
    assert value == blob()
    rename_states(value, {"": {"unknown": "other", "z": "z"}})
    assert value == blob()


def test_a_renaming_back_gives_the_blob_that_it_was() -> None:
    """Nothing is lost on the way."""
    value = blob()
    rename_states(value, RENAMES)
    back = {
        path: {new: old for old, new in names.items()}
        for path, names in (("", RENAMES[""]), ("alpha.1/job", RENAMES["a.1/job"]))
    }
    rename_states(value, back)
    assert value == blob()


def test_two_invocations_cannot_become_one() -> None:
    """Given ids below one nursery would clash; states that both invoked something would merge."""
    value = blob()
    with pytest.raises(UnfitError, match="'a' and 'z' of the root chart"):
        rename_states(value, {"": {"a": "z"}})
    value = {**blob(), "root": node(invokes=[work("y.@ann", "y")])}
    value["root"]["pending"] = [{"id": "z.@ann", "state": "y", "index": 0, "order": 1}]
    with pytest.raises(UnfitError, match="would have one id"):
        rename_states({**value, "effects": []}, {"": {"y": "z"}})


def test_a_dropped_state_goes_with_all_that_it_invoked() -> None:
    """Its charts, timers, events and turns; rows of effects stay, without a tail."""
    value = blob()
    drop_states(value, "", {"a", "p"})
    check_form("r", without_ledgers(value))
    root = value["root"]
    assert root["configuration"] == ["z"]
    assert root["history"] == {"h": ["z"]}
    assert "final" not in root
    assert list(charts_of(value)) == [""]
    assert value["turn"] == [""]
    assert value["between"] is True
    assert [timer["id"] for timer in value["timers"]] == ["z.2"]
    assert [one["item"]["event"] for one in value["arrivals"]] == ["done.invoke.z.@ann"]
    assert [one["event"] for one in root["queue"]] == ["done.invoke.z.2", "done.invoke.z", "note"]
    assert [one["id"] for one in value["effects"]] == [one["id"] for one in blob()["effects"]]


def test_what_is_dropped_takes_its_own_events_along() -> None:
    """Ends of the invocation, in the queue or just arrived; a turn that was cut short is over."""
    value = blob()
    value["turn"] = ["a.1/job", "", "a.1"]
    drop_work(value, "", {"z.2", "z.@ann", "a.1"})
    check_form("r", without_ledgers(value))
    assert value["root"]["queue"][0]["event"] == "done.invoke.z"
    assert (value["arrivals"], value["timers"], value["turn"]) == ([], [], [""])
    assert "between" not in value


def test_an_effect_in_doubt_that_is_dropped_is_not_offered() -> None:
    """The event that would have told the chart goes with it."""
    value = blob()
    drop_work(value, "a.1/job", {"pays.3"})
    assert charts_of(value)["a.1/job"]["queue"] == []
    assert [one["id"] for one in charts_of(value)["a.1/job"]["invokes"]] == ["pays.4"]


def test_numbers_below_a_given_id_are_remembered() -> None:
    """A chart under that id would use them again, and with them the keys of its effects."""
    value = blob()
    drop_work(value, "a.1", {"job"})
    assert charts_of(value)["a.1"]["floors"] == {"job": 9, "b.@": 7, "other": 1}
    assert "children" not in charts_of(value)["a.1"] or not charts_of(value)["a.1"]["children"]


def test_dropping_nothing_changes_nothing() -> None:
    """Neither no state nor one that is not there."""
    value = blob()
    drop_states(value, "", {"elsewhere"})
    drop_work(value, "", set())
    assert value == copy.deepcopy(blob())
