"""The console's own files: colours that can be read, and nothing that a policy would forbid."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from snapshots.inspection.console.rendering import FOLDER
from snapshots.records import STATUSES

STYLES = (FOLDER / "static" / "console.css").read_text(encoding="utf-8")
SCRIPT = (FOLDER / "static" / "console.js").read_text(encoding="utf-8")
TEMPLATES = sorted(FOLDER.glob("templates/*.html"))
TEXT_CONTRAST = 4.5
"""What WCAG 2.2 asks of text, success criterion 1.4.3."""
TEXTS = (
    *("ink", "soft", "link", "lit", "gate", "timer", "effect", "urgent"),
    *(f"c-{status}" for status in STATUSES),
)
BACKS = ("back", "panel")


def schemes() -> dict[str, dict[str, str]]:
    """Return the colours of each scheme by their names."""
    light, dark = re.findall(r":root \{(.*?)\}", STYLES, re.DOTALL)
    found = {}
    for name, block in (("light", light), ("dark", dark)):
        found[name] = dict(re.findall(r"--([\w-]+): (#[0-9a-fA-F]{6});", block))
    return found


def luminance(color: str) -> float:
    """Return how bright a colour is, as WCAG 2.2 defines relative luminance."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_on_every_ground(scheme: str) -> None:
    """Words, links and statuses, on the page and on its panels."""
    colors = schemes()[scheme]
    for text, back in product(TEXTS, BACKS):
        brighter, darker = sorted(map(luminance, (colors[text], colors[back])), reverse=True)
        assert (brighter + 0.05) / (darker + 0.05) >= TEXT_CONTRAST, (text, back)


def test_both_schemes_name_the_same_statuses() -> None:
    """A colour that only one of them had would be left from the other."""
    colors = schemes()
    assert {*TEXTS, *BACKS} <= colors["light"].keys() & colors["dark"].keys()


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_nothing_inline(template: Path) -> None:
    """No script, style or handler: the policy forbids them, and they would silently do nothing."""
    text = template.read_text(encoding="utf-8")
    assert re.findall(r"<script(?! src=\"/static/console\.js\" defer></script>)", text) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", text) == []


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_trusts_nothing_of_a_file(template: Path) -> None:
    """Escaping is never turned off, and no value is called safe."""
    text = template.read_text(encoding="utf-8")
    assert "autoescape" not in text
    assert re.findall(r"\|\s*safe", text) == []


def test_the_script_makes_no_page_of_a_text() -> None:
    """What a page says becomes nodes by the browser's parser of documents, which runs nothing."""
    for word in ("eval(", "Function(", "document.write", "insertAdjacentHTML", "http:", "https:"):
        assert word not in SCRIPT
    assert not re.search(r"innerHTML\s*=", SCRIPT)


def test_no_file_names_another_host() -> None:
    """Style sheets and templates name addresses of the console itself."""
    for path in (*TEMPLATES, *FOLDER.glob("static/*.css")):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"(?:https?:)?//[\w.]+\w", text) == [], path.name
        assert "@import" not in text
