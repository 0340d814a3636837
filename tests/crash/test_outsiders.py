"""Who sends to the runs keeps to the rules: again until answered, and no decision twice."""

from __future__ import annotations

from typing import Any

from machines.demo.moments import Moment, Watch, draw_moments
from machines.demo.outsiders import Outsiders, plan_runs

REFUSED = {"outcome": "refused", "message": "no"}


def new(share: float = 0.0) -> Outsiders:
    """Return the outsiders of one checkout."""
    return Outsiders(plan_runs(1), "service", lambda _kind, _key: {"again": True}, share)


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


def test_the_seed_draws_the_moments() -> None:
    """The same moments for the same seed, others for another, and every kind among many."""
    some = [next(draws) for draws in [draw_moments(1)] for _ in range(200)]
    assert some == [next(draws) for draws in [draw_moments(1)] for _ in range(200)]
    assert some != [next(draws) for draws in [draw_moments(2)] for _ in range(200)]
    assert {moment.on for moment in some} == {
        "opening",
        "open",
        "saved",
        "answer",
        "arrived",
        "accepted",
        "answered",
    }


def test_a_watch_waits_for_the_nth_word_and_then_for_its_time() -> None:
    """Other words do not count, and a moment that never comes is given up."""
    watch = Watch(Moment(on="answer", nth=2, after_s=0.25), now_s=100.0)
    watch.see({"at": "saved", "run": "a"}, 100.0)
    watch.see({"at": "answer"}, 100.125)
    assert watch.left_s(100.125) > 0.25
    watch.see({"at": "answer"}, 100.25)
    assert (watch.left_s(100.25), watch.left_s(100.5)) == (0.25, 0)
    assert watch.why == "250.0 ms after it answered a command"
    patient = Watch(Moment(on="answer", nth=1, after_s=0.0, is_patient=True), now_s=100.0)
    patient.see({"at": "answer"}, 100.0)
    assert patient.left_s(100.0) > 0
    patient.look()
    patient.see({"at": "answer"}, 100.0)
    assert patient.left_s(100.0) == 0
    never = Watch(Moment(on="answer", nth=1, after_s=0.0), now_s=100.0)
    assert (never.left_s(200.0), never.why) == (0, Watch.IDLE)
