"""Finds what `machines` uses of python-statemachine beyond its documented names.

The modules are read as syntax trees, and the classes that are made out of the library's are looked
at for what they override; nothing is listed by hand here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.house.sources import ROOT, modules, parse

LIBRARY = "statemachine"
PUBLIC_MODULES = frozenset({LIBRARY, f"{LIBRARY}.exceptions", f"{LIBRARY}.mixins"})
"""What the library's documentation tells its users to import from."""
PRIVATE = re.compile(r"_[a-z]\w*")
MADE_BY_DATACLASSES = frozenset({"__init__", "__eq__", "__replace__", "__repr__"})
QUALIFIED = re.compile(r"\w+\.<locals>\.\w+")

Uses = dict[str, set[str]]
"""Name → the modules that use it."""


@dataclass
class Found:
    """What one walk over the package finds."""

    imports: Uses = field(default_factory=lambda: defaultdict(set))
    """`module.name` of every import from a module that is not documented."""
    names: Uses = field(default_factory=lambda: defaultdict(set))
    """Private names that belong to the library's objects."""
    mentions: Uses = field(default_factory=lambda: defaultdict(set))
    """Every name that occurs at all: attributes, texts, keywords, definitions."""


def module_name(path: Path) -> str:
    """Return how a module is imported."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_modules() -> list[Path]:
    """Return the modules of the package, named from the root of the checkout."""
    return modules("machines")


@cache
def library_names() -> frozenset[str]:
    """Return every private name that the installed library defines anywhere."""
    root = importlib.import_module(LIBRARY).__file__
    assert root is not None
    found: set[str] = set()
    for path in Path(root).parent.rglob("*.py"):
        found |= defined(ast.parse(path.read_text(encoding="utf-8")), declared=True)
    return frozenset(found)


def defined(tree: ast.AST, *, declared: bool) -> set[str]:
    """Return the private names that a module defines.

    `declared` counts a bare annotation in a class body too: in the library that is a definition,
    in a class of ours it says what the library's class has.
    """
    found: set[str] = set()
    for node in ast.walk(tree):
        found |= {name for name in _names_of(node, declared=declared) if PRIVATE.fullmatch(name)}
    return found


def _names_of(node: ast.AST, *, declared: bool) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.arg):
        yield node.arg
    for target in _targets(node, declared=declared):
        for part in ast.walk(target):
            if isinstance(part, ast.Name):
                yield part.id
            if isinstance(part, ast.Attribute) and _is_self(part.value):
                yield part.attr
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
        yield from _texts(node.value)


def _targets(node: ast.AST, *, declared: bool) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.AnnAssign) and (node.value is not None or declared):
        return [node.target]
    if isinstance(node, ast.ClassDef) and _is_dataclass(node):
        return [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
    return []


def _texts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def find() -> Found:
    """Walk over the package."""
    return find_in({module_name(path): parse(path) for path in package_modules()})


def find_in(trees: Mapping[str, ast.Module]) -> Found:
    """Walk over modules, given by their names."""
    own = {name for tree in trees.values() for name in defined(tree, declared=False)}
    found = Found()
    for module, tree in trees.items():
        _Walk(module, own, found).visit(tree)
    return found


class _Walk(ast.NodeVisitor):
    """Reads one module."""

    def __init__(self, module: str, own: set[str], found: Found) -> None:
        self.module = module
        self.own = own
        self.found = found
        self.inside: list[type] = []
        self.other_modules: set[str] = set()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = node.module or ""
        if source.split(".")[0] != LIBRARY:
            return
        for alias in node.names:
            self.found.mentions[alias.name].add(self.module)
            if source not in PUBLIC_MODULES or alias.name.startswith("_"):
                self.found.imports[f"{source}.{alias.name}"].add(self.module)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] != LIBRARY:
                self.other_modules.add(alias.asname or alias.name)
            elif alias.name not in PUBLIC_MODULES:
                self.found.imports[alias.name].add(self.module)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._note(node.name)
        cls = getattr(importlib.import_module(self.module), node.name, None)
        self.inside.append(cls if isinstance(cls, type) else object)
        self.generic_visit(node)
        self.inside.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._define(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._define(node)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._note(node.name, of_ours=not self._made_of_the_library)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._note(node.target.id, of_ours=not self._made_of_the_library)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        of_ours = _is_self(node.value) and bool(self.inside) and not self._made_of_the_library
        of_ours = of_ours or ast.unparse(node.value) in self.other_modules
        self._note(node.attr, of_ours=of_ours)
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        self._note(node.arg or "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._note(node.value)

    @property
    def _made_of_the_library(self) -> bool:
        return bool(self.inside) and bool(library_classes(self.inside[-1]))

    def _note(self, name: str, *, of_ours: bool = False) -> None:
        if QUALIFIED.search(name):
            self.found.names[name].add(self.module)
        self.found.mentions[name].add(self.module)
        if not PRIVATE.fullmatch(name) or of_ours:
            return
        if name not in self.own or name in library_names():
            self.found.names[name].add(self.module)


def library_classes(cls: type) -> list[type]:
    """Return the library's classes that a class of ours, or one mixed in from it, is made of."""
    heirs = [cls, *_heirs(cls)]
    ancestors = dict.fromkeys(base for heir in heirs for base in heir.__mro__)
    return [base for base in ancestors if base.__module__.split(".")[0] == LIBRARY]


def _heirs(cls: type) -> Iterator[type]:
    if cls is object:
        return
    for heir in cls.__subclasses__():
        if heir.__module__.split(".")[0] == "machines":
            yield heir
            yield from _heirs(heir)


def overrides() -> Mapping[str, tuple[str, Callable[..., Any], Callable[..., Any]]]:
    """Return `Class.method` of the library → the module that overrides it, and both functions."""
    found: dict[str, tuple[str, Callable[..., Any], Callable[..., Any]]] = {}
    for path in package_modules():
        module = module_name(path)
        for cls in vars(importlib.import_module(module)).values():
            if not isinstance(cls, type) or cls.__module__ != module:
                continue
            for name, ours in vars(cls).items():
                if name in MADE_BY_DATACLASSES:
                    continue
                for base in library_classes(cls):
                    theirs = vars(base).get(name)
                    if inspect.isfunction(ours) and inspect.isfunction(theirs):
                        found[f"{base.__name__}.{name}"] = module, ours, theirs
    return found


def where(uses: Iterable[str]) -> str:
    """Say which modules use a name, by the files that they are in."""
    files = (Path(*module.split(".")) for module in sorted(uses))
    return ", ".join(
        str(f / "__init__.py" if (ROOT / f).is_dir() else f.with_suffix(".py")) for f in files
    )
