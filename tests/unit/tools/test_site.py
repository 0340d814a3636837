"""The site asks nobody, leaves nobody out, and leads nowhere outside."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tools.site import CONFIGURATION, ROOT, faults_of, loads_of
from tools.site_hooks import inward, on_page_markdown


class Plain(yaml.SafeLoader):
    """Reads mkdocs' configuration without making what it names by Python's own names."""


Plain.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def configuration() -> dict[str, object]:
    """Return the configuration of the site."""
    given = yaml.load(CONFIGURATION.read_text(encoding="utf-8"), Loader=Plain)  # noqa: S506 - a SafeLoader
    assert isinstance(given, dict)
    return given


@pytest.mark.parametrize(
    ("name", "text", "loads"),
    [
        (
            "a.html",
            '<script src="https://cdn.example/x.js"></script>',
            ["https://cdn.example/x.js"],
        ),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/f">', ["//fonts.example/f"]),
        ("a.html", '<link href="https://x.example/preconnect">', ["https://x.example/preconnect"]),
        ("a.html", '<img srcset="HTTPS://x.example/i.png 2x">', ["HTTPS://x.example/i.png 2x"]),
        ("a.html", '<p style="background: url(//x.example/b)">', ["//x.example/b"]),
        ("a.html", "<style>@import 'https://x.example/s';</style>", ["https://x.example/s"]),
        ("a.css", "@font-face { src: url(https://x.example/f) }", ["https://x.example/f"]),
        ("a.html", '<a href="https://x.example">read</a>', []),
        ("a.html", '<link rel="canonical" href="https://x.example">', []),
        ("a.html", '<script src="../own.js"></script><img src="data:image/png,">', []),
        ("a.css", "a { background: url(own.png) } /* https://x.example */", []),
    ],
)
def test_what_a_browser_would_load_from_elsewhere_is_found(
    name: str, text: str, loads: list[str]
) -> None:
    """What loads by itself is told from what a person has to follow."""
    assert loads_of(name, text) == loads


def test_a_site_that_lacks_a_name_or_loads_something_is_faulty(tmp_path: Path) -> None:
    """Each fault is a line; a site without any has none."""
    (tmp_path / "reference").mkdir()
    page = tmp_path / "reference" / "a.html"
    page.write_text('<h2 id="a.B"></h2>', encoding="utf-8")
    assert faults_of(tmp_path, {"a.B"}) == []
    page.write_text('<img src="//x.example/i">', encoding="utf-8")
    assert faults_of(tmp_path, {"a.B"}) == [
        "reference: no entry for a.B",
        "reference/a.html: loads //x.example/i",
    ]


def test_links_out_of_the_docs_become_their_text() -> None:
    """The site has no tests and no README; code is left alone."""
    page = "[a](b.md#c) [`t`](../../tests/t.py) [r [s]](../../R.md#x)\n```md\n[q](../../q)\n```\n"
    expected = "[a](b.md#c) `t` r [s]\n```md\n[q](../../q)\n```\n"
    assert inward(page, "howto") == expected


def test_marks_for_the_tests_are_not_shown() -> None:
    """Titles are: the site writes them above their block."""
    page = SimpleNamespace(file=SimpleNamespace(src_uri="a.md"))
    text = '```python unrun="why"\n```\n```console exits=1\n```\n```python title="a.py"\n```\n'
    shown = '```python\n```\n```console\n```\n```python title="a.py"\n```\n'
    assert on_page_markdown(text, page) == shown


def test_the_navigation_has_every_page_and_no_other() -> None:
    """A page that is written is found, and nothing leads to one that is not."""
    docs = ROOT / "docs"
    named: set[str] = set()
    waiting = [configuration()["nav"]]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, str):
            named.add(entry)
        elif isinstance(entry, list):
            waiting += entry
        elif isinstance(entry, dict):
            waiting += entry.values()
    assert {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} == named


def test_the_theme_loads_no_font() -> None:
    """By default it would, from another host."""
    theme = configuration()["theme"]
    assert isinstance(theme, dict)
    assert theme["font"] is False
