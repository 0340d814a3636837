"""The colors of a picture: one name each, with what it is on a light and on a dark page."""

from __future__ import annotations

from typing import Final

# Names → (light, dark). Each light color stands for one name alone: it is found again in the SVG.
# Text on each ground that it may stand on has a contrast of 4.5 to 1 or more (WCAG 2.2, 1.4.3).
COLORS: Final[dict[str, tuple[str, str]]] = {
    "ink": ("#1f2328", "#f0f3f6"),
    "faint": ("#4f5761", "#b7bfc8"),
    "line": ("#6e7781", "#8b949e"),
    "paper": ("#fefefe", "#0d1117"),
    "visited1": ("#f6f3ea", "#1c1b17"),
    "visited2": ("#fdf4cf", "#2c2814"),
    "visited3": ("#fbe9a0", "#3d3510"),
    "active": ("#bdeec9", "#0f3d22"),
    "around": ("#edfaf0", "#0f2418"),
    "lit": ("#1a7f37", "#3fb950"),
    "gate": ("#0a3f8a", "#8cc2ff"),
    "timer": ("#5a2fa6", "#d2a8ff"),
    "effect": ("#6b4200", "#e3b341"),
    "doubt": ("#a40e26", "#ffa198"),
    "alarm": ("#ffe0dd", "#4b1113"),
    "last": ("#bc4c00", "#ffa657"),
    "gone": ("#b3152a", "#ff8b82"),
    "new": ("#116b2d", "#56d364"),
    "changed": ("#774e03", "#e9bd55"),
    "goneback": ("#ffebe9", "#3c1618"),
    "newback": ("#dafbe1", "#10301a"),
    "changedback": ("#fff8c5", "#332b0c"),
}


def light(name: str) -> str:
    """Return a color as it is on a light page."""
    return COLORS[name][0]


def style_sheet() -> str:
    """Return the CSS that gives `.picture` its colors, by custom properties, light and dark.

    A page with a switch of its own sets the same properties on `.picture` under its own selector.
    """
    lights, darks = (
        "".join(f"--p-{name}:{both[side]};" for name, both in COLORS.items()) for side in (0, 1)
    )
    uses = "".join(
        f".picture .f-{name}{{fill:var(--p-{name})}}.picture .s-{name}{{stroke:var(--p-{name})}}"
        for name in COLORS
    )
    return f".picture{{{lights}}}@media(prefers-color-scheme:dark){{.picture{{{darks}}}}}{uses}"
