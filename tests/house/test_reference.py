"""The reference has an entry for every public name, and no entry for what is not there."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest

from tests.house.pages import DOCS
from tools.site import REFERENCE, public_names

PAGES = sorted((DOCS / "reference").glob("*.md"))
ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
MEMBER = re.compile(r"^ +- (\w+)$", re.MULTILINE)


def entries() -> dict[str, list[str]]:
    """Return the names of the reference, each with those of its members that are chosen."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        _, *parts = ENTRY.split(page.read_text(encoding="utf-8"))
        for name, rest in zip(parts[::2], parts[1::2], strict=True):
            assert name not in found, f"{name} has two entries"
            found[name] = MEMBER.findall(rest)
    return found


def test_every_public_name_has_its_entry() -> None:
    """What a package exports is in the reference, once, and nothing else is."""
    assert public_names() - entries().keys() == set()
    own = {name for name in entries() if name.rpartition(".")[0] in REFERENCE}
    assert own - public_names() == set()


def test_chosen_members_are_there() -> None:
    """Where an entry names the members that it shows, each is one."""
    chosen = {name: members for name, members in entries().items() if members}
    assert "machines.Host" in chosen
    for name, members in chosen.items():
        package, _, last = name.rpartition(".")
        owner = getattr(import_module(package), last)
        known = {*dir(owner), *(each for base in owner.__mro__ for each in _assigned(base))}
        assert [each for each in members if each not in known] == [], name


def _assigned(owner: type) -> set[str]:
    """Return the names that the methods of a class give its instances."""
    if owner is object:
        return set()
    return set(re.findall(r"self\.(\w+)(?:: [^=\n]+)? =", inspect.getsource(owner)))


@pytest.mark.parametrize("name", sorted(public_names()))
def test_a_public_name_says_what_it_is(name: str) -> None:
    """An entry is made of the docstring, which classes and functions therefore have."""
    package, _, last = name.rpartition(".")
    value = getattr(import_module(package), last)
    is_ours = getattr(value, "__module__", "").startswith(("machines", "snapshots"))
    if is_ours and (inspect.isclass(value) or inspect.isfunction(value)):
        assert (inspect.getdoc(value) or "").strip()
