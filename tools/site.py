"""Builds the site of the docs and looks whether it is whole: `python -m tools.site`.

It needs the extra `docs`. mkdocs fails at a link or an anchor that leads nowhere, and at a page
that is not in the navigation. What is looked for here is what a browser would load from another
host, and public names that the reference has no entry for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / ".site" / "mkdocs.yml"
SITE = ROOT / "build" / "site"
REFERENCE = ("machines", "snapshots", "snapshots.storage")
"""The packages whose public names have an entry in the reference."""

# Attributes that a browser follows by itself, by element; a person follows those of an anchor.
LOADED = {
    "link": ("href",),
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "use": ("href", "xlink:href"),
}
# Links in the head that only say where something is.
NOT_LOADED = frozenset({"canonical", "next", "prev", "alternate", "author", "license"})
OUTSIDE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
STYLE_LOADS = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s;]+)", re.IGNORECASE)


class Loads(HTMLParser):
    """Collects what a page has a browser load from other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at the attributes that are followed."""
        given = dict(attrs)
        self.outside += STYLE_LOADS.findall(given.get("style") or "")
        if tag == "link" and NOT_LOADED.issuperset((given.get("rel") or "?").split()):
            return
        values = [given.get(name) or "" for name in LOADED.get(tag, ())]
        self.outside += [value for value in values if OUTSIDE.match(value)]


def loads_of(name: str, text: str) -> list[str]:
    """Return what a file of the site, HTML or CSS, has a browser load from other hosts."""
    if name.endswith(".css"):
        return STYLE_LOADS.findall(text)
    parser = Loads()
    parser.feed(text)
    styles = "".join(re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL))
    return parser.outside + STYLE_LOADS.findall(styles)


def public_names() -> set[str]:
    """Return the names that the packages of the reference export, with their package's."""
    return {f"{name}.{each}" for name in REFERENCE for each in import_module(name).__all__}


def faults_of(site: Path, names: set[str]) -> list[str]:
    """Return a line for each name without an entry, and for what a page loads from elsewhere."""
    pages = [page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html")]
    entries = {each for page in pages for each in re.findall(r'\bid="([\w.]+)"', page)}
    found = [f"reference: no entry for {name}" for name in sorted(names - entries)]
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        name = path.relative_to(site).as_posix()
        text = path.read_text(encoding="utf-8")
        found += [f"{name}: loads {address}" for address in loads_of(name, text)]
    return found


def main() -> int:
    """Build and look; return 1 if anything is wrong."""
    build = ("-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(CONFIGURATION))
    # What it would say is about a successor, not about the site.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    finished = subprocess.run((sys.executable, *build), cwd=ROOT, env=environment, check=False)
    if finished.returncode != 0:
        return 1
    found = faults_of(SITE, public_names())
    sys.stdout.writelines(f"{line}\n" for line in found)
    pages = len(list(SITE.rglob("*.html")))
    sys.stdout.write(f"site: {pages} pages in {SITE}, {len(found)} faults\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
