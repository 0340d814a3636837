"""The runner of conformance documents counts what passes, under both engines and over restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.w3c import MODES, main

PASSES = """<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="s0">
  <datamodel><data id="n" expr="0"/></datamodel>
  <state id="s0">
    <onentry><send event="later" delay="20ms"/><assign location="n" expr="n + 1"/></onentry>
    <transition event="later" cond="n == 1" target="s1"/>
    <transition event="later" target="fail"/>
  </state>
  <state id="s1">
    <invoke type="scxml"><content>
      <scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="c0">
        <state id="c0"><transition target="cf"/></state><final id="cf"/>
      </scxml>
    </content></invoke>
    <transition event="done.invoke" target="pass"/>
  </state>
  <final id="pass"/><final id="fail"/>
</scxml>
"""
FAILS = PASSES.replace('cond="n == 1" target="s1"', 'cond="n == 1" target="fail"')


def test_what_the_library_passes_is_the_measure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two documents one passes plain, so each mode prints 1 of 1 and the exit code is 0."""
    (tmp_path / "test1.scxml").write_text(PASSES, encoding="utf-8")
    (tmp_path / "test2.scxml").write_text(FAILS, encoding="utf-8")
    assert main(tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(": 1 of 1 (" in line for line in lines) == 2 * len(MODES)
    assert sum("1 of 2 pass plain" in line for line in lines) == 2


def test_an_empty_folder_is_no_success(tmp_path: Path) -> None:
    """Without a document there is nothing to count."""
    assert main(tmp_path) == 2
