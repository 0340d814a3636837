"""Who sends to the runs keeps to the rules: again until answered, and no decision twice."""

from __future__ import annotations

from typing import Any

from machines.demo.moments import Moment, Watch, draw_moments, occasions
from machines.demo.outsiders import Outsiders, Wish, plan_runs
from machines.demo.scenarios.checkout import CHECKOUT

REFUSED = {"outcome": "refused", "message": "no"}
KNOWN = {occasion.at: occasion for occasion in occasions("receiver")}


def new(share: float = 0.0) -> Outsiders:
    """Return the outsiders of one checkout."""
    plan = plan_runs(1, CHECKOUT.machines)
    decide = {"again": True}
    return Outsiders(plan, "service", lambda _kind, _key: decide, CHECKOUT.habits, share)


def sent(outsiders: Outsiders) -> list[dict[str, Any]]:
    """Return what they send now."""
    return list(outsiders.to_send())


def test_a_command_is_sent_again_after_a_kill_until_it_is_answered() -> None:
    """With the same id and the same delivery; once answered it is not sent any more."""
    outsiders = new()
    (start,) = sent(outsiders)
    outsiders.see_answer({"id": start["id"], "outcome": "done"})
    (pay,) = sent(outsiders)
    assert (pay["event"], pay["delivery"]) == ("pay", "checkout-1-pay")
    assert sent(outsiders) == []
    outsiders.see_kill()
    assert sent(outsiders) == [pay]
    outsiders.see_answer({"id": pay["id"], "outcome": "taken"})
    outsiders.see_kill()
    assert (sent(outsiders), outsiders.is_idle) == ([], True)
    assert (outsiders.first_sends, outsiders.repeats, outsiders.taken) == (2, 1, 1)


def test_a_start_that_exists_already_is_taken_only_if_it_was_sent_before() -> None:
    """The first time it is a refusal that nothing explains."""
    refusal = REFUSED | {"error": "RunExistsError"}
    fresh, again = new(), new()
    (start,) = sent(fresh)
    fresh.see_answer(refusal | {"id": start["id"]})
    assert fresh.refused == ["start for checkout-1: no"]
    sent(again)
    again.see_kill()
    (start,) = sent(again)
    again.see_answer(refusal | {"id": start["id"]})
    assert (again.refused, again.taken) == ([], 1)


def test_a_decision_is_made_anew_after_a_kill() -> None:
    """What was decided about the last attempt may be wrong for the next one."""
    outsiders = new()
    sent(outsiders)
    outsiders.see_doubt("checkout-1", "effect", 1, "kind", "key")
    outsiders.see_doubt("checkout-1", "effect", 1, "kind", "key")
    (decision,) = sent(outsiders)
    assert (decision["do"], decision["verdict"]) == ("resolve", {"again": True})
    outsiders.see_kill()
    assert [line["do"] for line in sent(outsiders)] == ["start"]


def test_a_gate_is_answered_when_its_time_has_come() -> None:
    """Not before the run's share of all lives is over, and once per gate."""
    outsiders = new(share=0.5)
    outsiders.see_gates("checkout-1", [("review", "approve")])
    assert "answer" not in [line["do"] for line in sent(outsiders)]
    outsiders.share = 1.0
    (answer,) = sent(outsiders)
    assert (answer["do"], answer["gate"], answer["event"]) == ("answer", "review", "approve")
    assert sent(outsiders) == []


def test_who_comes_second_is_told_and_sends_no_more() -> None:
    """A refusal that the sender reckons with is an answer; any other is one that is reported."""
    outsiders = new()
    line = {"do": "answer", "gate": "g", "event": "e", "delivery": "mine"}
    for name, losses in (("reckoned", {"GateClosedError"}), ("not", set[str]())):
        outsiders.want("checkout-1", Wish(name=(name,), line=line, losses=frozenset(losses)))
    for command in [line for line in sent(outsiders) if line["do"] == "answer"]:
        outsiders.see_answer(REFUSED | {"id": command["id"], "error": "GateClosedError"})
    assert outsiders.told["checkout-1", "reckoned"] == "GateClosedError"
    assert outsiders.refused == ["answer for checkout-1: no"]


def test_an_answer_with_a_delivery_is_not_taken_for_one_that_got_through() -> None:
    """Its repeat is told so; a closed gate then says that somebody else was first."""
    outsiders = new()
    line = {"do": "answer", "gate": "g", "event": "e", "delivery": "mine"}
    outsiders.want(
        "checkout-1", Wish(name=("g",), line=line, losses=frozenset({"GateClosedError"}))
    )
    sent(outsiders)
    outsiders.see_kill()
    command = next(line for line in sent(outsiders) if line["do"] == "answer")
    outsiders.see_answer(REFUSED | {"id": command["id"], "error": "GateClosedError"})
    assert (outsiders.taken, outsiders.refused) == (0, [])


def test_the_seed_draws_the_moments() -> None:
    """The same moments for the same seed, others for another, and every kind among many."""
    known = tuple(KNOWN.values())
    some = [next(draws) for draws in [draw_moments(1, known)] for _ in range(200)]
    assert some == [next(draws) for draws in [draw_moments(1, known)] for _ in range(200)]
    assert some != [next(draws) for draws in [draw_moments(2, known)] for _ in range(200)]
    assert {moment.occasion for moment in some} == set(known)


def test_a_watch_waits_for_the_nth_word_and_then_for_its_time() -> None:
    """Other words do not count, and a moment that never comes is given up."""
    watch = Watch(Moment(occasion=KNOWN["answer"], nth=2, after_s=0.25), now_s=100.0)
    watch.see({"at": "saved", "run": "a"}, 100.0)
    watch.see({"at": "answer"}, 100.125)
    assert watch.left_s(100.125) > 0.25
    watch.see({"at": "answer"}, 100.25)
    assert (watch.left_s(100.25), watch.left_s(100.5)) == (0.25, 0)
    assert watch.why == "250.0 ms after it answered a command"
    patient = Watch(
        Moment(occasion=KNOWN["answer"], nth=1, after_s=0.0, is_patient=True), now_s=100.0
    )
    patient.see({"at": "answer"}, 100.0)
    assert patient.left_s(100.0) > 0
    patient.look()
    patient.see({"at": "answer"}, 100.0)
    assert patient.left_s(100.0) == 0
    never = Watch(Moment(occasion=KNOWN["answer"], nth=1, after_s=0.0), now_s=100.0)
    assert (never.left_s(200.0), never.why) == (0, Watch.IDLE)
