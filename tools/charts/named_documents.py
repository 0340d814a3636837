"""Named charts that are loaded from SCXML: their session, and the charts that they invoke."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemachine.io import load

from tools.charts.spec import Send
from tools.charts.subject import NamedChart, named

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine import StateChart

SCXML = '<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="{initial}">'
PARENT_RUNS_AT_ONCE = "the library runs the parent's macrosteps on its child's thread"


def _builder(name: str, text: str, initial: str) -> Callable[[], type[StateChart[Any]]]:
    """How to load a document from a file of its own: the library keeps a run's flags per load."""

    def build() -> type[StateChart[Any]]:
        with tempfile.TemporaryDirectory(prefix="charts-") as folder:
            path = Path(folder) / f"{name}.scxml"
            path.write_text(SCXML.format(initial=initial) + text + "</scxml>", encoding="utf-8")
            return load(path)

    return build


def session_id() -> NamedChart:
    """Guards the session id: the document keeps it in `mine` and compares it later.

    With another id after a restart `compare` leads to `other` and not to `same`.
    """
    text = """
      <datamodel><data id="mine" expr="''"/></datamodel>
      <state id="start">
        <transition event="note" target="noted">
          <assign location="mine" expr="_sessionid"/>
        </transition>
      </state>
      <state id="noted">
        <transition event="compare" cond="_sessionid == mine" target="same"/>
        <transition event="compare" target="other"/>
      </state>
      <final id="same"/><final id="other"/>
    """
    return named(
        session_id, row="document session", build=_builder("session_id", text, "start"),
        script=(Send(event="note"), Send(event="compare")),
    )  # fmt: skip


def initialised_flag() -> NamedChart:
    """Guards that the data model is initialised: `start` is entered again, and `rounds` counts on.

    Initialised a second time, `rounds` is back at 0.
    """
    text = """
      <datamodel><data id="rounds" expr="0"/></datamodel>
      <state id="start">
        <onentry><assign location="rounds" expr="rounds + 1"/></onentry>
        <transition event="go" target="away"/>
      </state>
      <state id="away"><transition event="back" target="start"/></state>
    """
    return named(
        initialised_flag, row="document session", build=_builder("initialised", text, "start"),
        script=(Send(event="go"), Send(event="back"), Send(event="go"), Send(event="back")),
        reported=("rounds",),
    )  # fmt: skip


def first_event_raised() -> NamedChart:
    """Guards that a first event was raised: from then on `_event` is bound.

    `watching` looks at it in an eventless guard, which is evaluated before the next event is
    taken. Unbound, that is an error, and `errors` counts it.
    """
    text = """
      <datamodel><data id="errors" expr="0"/></datamodel>
      <state id="start"><transition event="go" target="watching"/></state>
      <state id="watching">
        <transition cond="_event.name == 'never'" target="start"/>
        <transition event="error.execution">
          <assign location="errors" expr="errors + 1"/>
        </transition>
        <transition event="ping"/>
      </state>
    """
    return named(
        first_event_raised, row="document session", build=_builder("first_event", text, "start"),
        script=(Send(event="go"), Send(event="ping"), Send(event="ping")), reported=("errors",),
    )  # fmt: skip


def turn_in_a_tree() -> NamedChart:
    """Guards whose turn it is: the child tells its parent `up`, and has a step of its own to go.

    Its second step tells the parent `second`, which `left` counts. Where the parent runs first it
    takes `up`, leaves the state and stops the child, so `second` is never sent.
    """
    text = """
      <datamodel><data id="seconds" expr="0"/></datamodel>
      <state id="idle"><transition event="begin" target="working"/></state>
      <state id="working">
        <invoke id="kid"><content>
          <scxml initial="c1" version="1.0">
            <state id="c1">
              <onentry><send event="up" target="#_parent"/><send event="next"/></onentry>
              <transition event="next" target="c2"/>
            </state>
            <state id="c2">
              <onentry><send event="second" target="#_parent"/></onentry>
            </state>
          </scxml>
        </content></invoke>
        <transition event="up" target="left"/>
      </state>
      <state id="left">
        <transition event="second"><assign location="seconds" expr="seconds + 1"/></transition>
      </state>
    """
    return named(
        turn_in_a_tree, row="turn in a tree", build=_builder("turn", text, "idle"),
        script=(Send(event="begin"), Send(event="ping")), reported=("seconds",),
        incomparable=(PARENT_RUNS_AT_ONCE,),
    )  # fmt: skip


def child_document() -> NamedChart:
    """Guards a child that was made from text, with its parameter and its way to its parent.

    It answers each `ask` that is passed on to it with the parameter that it was made with.
    Without its text it cannot be made again, and without the way to its parent nobody hears the
    answer; the parameter counts as long as the child was made and not started.
    """
    text = """
      <datamodel><data id="seed" expr="5"/><data id="sum" expr="0"/></datamodel>
      <state id="working">
        <invoke id="kid" autoforward="true">
          <param name="given" expr="seed + 1"/>
          <content>
            <scxml initial="c1" version="1.0">
              <datamodel><data id="given" expr="0"/></datamodel>
              <state id="c1">
                <transition event="ask">
                  <send event="tell" target="#_parent"><param name="value" expr="given"/></send>
                </transition>
                <transition event="stop" target="c2"/>
              </state>
              <final id="c2"/>
            </scxml>
          </content>
        </invoke>
        <transition event="tell">
          <assign location="sum" expr="sum + _event.data.value"/>
        </transition>
        <transition event="done.invoke.kid" target="over"/>
      </state>
      <final id="over"/>
    """
    script = (Send(event="ask"), Send(event="ask"), Send(event="stop"))
    return named(
        child_document, row="children", build=_builder("child_document", text, "working"),
        script=script, reported=("sum",), incomparable=(PARENT_RUNS_AT_ONCE,),
    )  # fmt: skip
