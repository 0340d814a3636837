"""The verdict of the demo has teeth: each fault that it looks for is found when it is there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from machines.demo.killer import FILE, LOG, Siege
from machines.demo.log import Log
from machines.demo.results import Result
from machines.demo.scenarios.checkout import CHECKOUT
from machines.demo.witness import Doubt, Witness
from tests.crash.cases import case_of, claims

RUNS = ["checkout-1", "fulfilment-2"]


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Let both charts run through one kill."""
    folder = tmp_path_factory.mktemp("laid")
    return Siege(scenario=CHECKOUT, folder=folder, kills=1, runs=2, seed=2, verify=True).lay()


@pytest.fixture
def folder(laid: Result, tmp_path: Path) -> Path:
    """Return a copy of what was left, to be tampered with."""
    return Path(shutil.copytree(laid.file.parent, tmp_path / "copy"))


def witness_of(folder: Path) -> Witness:
    """Return a witness that was told nothing yet."""
    return Witness(folder / FILE, Log(folder / LOG))


def told(witness: Witness, **changes: object) -> dict[str, object]:
    """Return the announcement of the newest save of the checkout, changed."""
    row = witness.examine(RUNS)["checkout-1"]
    honest = {
        "run": "checkout-1",
        "revision": row.view.revision,
        "step": row.step,
        "status": row.view.status,
        "moves": row.trail,
        "doubts": [],
    }
    return honest | changes


def test_the_truth_is_not_complained_about(laid: Result, folder: Path) -> None:
    """What really was acknowledged is found, and every claim holds."""
    assert laid.is_good
    assert [run.status for run in laid.runs] == ["done", "done"]
    witness = witness_of(folder)
    witness.take_save(told(witness))
    witness.take_start("fulfilment-2")
    witness.take_delivery("checkout-1", "checkout-1-pay")
    witness.examine(RUNS)
    assert not any(claims(case_of(CHECKOUT, witness, 2)).values())


@pytest.mark.parametrize(
    "changes",
    [
        {"revision": 2**40},
        {"step": 1_000},
        {"status": "failed"},
        {"moves": [[1, "", "pay", ["cart"], ["charging"]]]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_save_that_is_not_on_disk_is_lost(folder: Path, changes: dict[str, object]) -> None:
    """A later revision, a later step, another ending, a transition that is not in the trail."""
    witness = witness_of(folder)
    witness.take_save(told(witness, **changes))
    witness.examine(RUNS)
    assert len(witness.lost) == 1


def test_a_run_or_a_delivery_that_is_not_on_disk_is_lost(folder: Path) -> None:
    """What was acknowledged as started, or as taken, has to be there."""
    witness = witness_of(folder)
    witness.take_start("checkout-9")
    witness.take_delivery("checkout-1", "another")
    witness.examine([*RUNS, "checkout-9"])
    assert len(witness.lost) == 2


def alter(folder: Path, change: Callable[[list[dict[str, object]]], None]) -> None:
    """Change the receiver's log."""
    log = folder / LOG
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    change(entries)
    log.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")


def first_charge(entries: list[dict[str, object]]) -> dict[str, object]:
    """Return the log's entry of the charge."""
    return next(entry for entry in entries if entry["what"] == "charge")


def test_a_charge_that_the_receiver_saw_twice_is_a_repeat(folder: Path) -> None:
    """Under another key too: what counts is what it was about."""
    alter(folder, lambda entries: entries.append(first_charge(entries) | {"key": "another"}))
    witness = witness_of(folder)
    witness.examine(RUNS)
    found = claims(case_of(CHECKOUT, witness, 2))
    assert found["non-idempotent effects repeated"] == ("charge of checkout-1: 2 times",)
    assert len(found["calls that left without an intent on disk"]) == 1


def test_a_mail_that_the_receiver_never_saw_did_not_happen(folder: Path) -> None:
    """The ledger says that it is done; the log knows nothing of it."""

    def forget_mails(entries: list[dict[str, object]]) -> None:
        entries[:] = [entry for entry in entries if entry["what"] != "mail"]

    alter(folder, forget_mails)
    witness = witness_of(folder)
    witness.examine(RUNS)
    found = claims(case_of(CHECKOUT, witness, 2))
    assert len(found["effects recorded as done that never happened"]) == 1


def test_a_run_that_is_not_stored_is_stuck(folder: Path) -> None:
    """Every planned run has to be found, and done."""
    witness = witness_of(folder)
    witness.examine(RUNS[:1])
    found = claims(case_of(CHECKOUT, witness, 2))
    assert found["runs stuck"] == ("fulfilment-2: never stored",)


def test_a_trail_that_does_not_hang_together_is_found(folder: Path) -> None:
    """A step that is missing in the middle, and an event that was run twice."""
    witness = witness_of(folder)
    row = witness.examine(RUNS)["checkout-1"]
    del row.trail[1]
    row.trail.append(row.trail[-1])
    witness._check_trail("checkout-1", row)
    assert len(witness.twisted) == 3


def test_a_doubt_that_nobody_settled_is_found(folder: Path) -> None:
    """It is one of the claims, beside those that are settled."""
    witness = witness_of(folder)
    witness.examine(RUNS)
    doubt = Doubt(
        run="checkout-1",
        effect="checkout-1/gone.1",
        attempt=1,
        kind="gone",
        path="",
        invoke="gone.1",
        cause="a kill",
        had_happened=False,
    )
    assert witness.settled_by(doubt, set()) is None
    found = claims(case_of(CHECKOUT, witness, 2, doubts=((doubt, None),)))
    assert found["doubts that nobody settled"] == ("checkout-1/gone.1, attempt 1",)
