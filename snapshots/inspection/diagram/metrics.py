"""How wide a text is in Helvetica, which is what Graphviz leaves room for."""

from __future__ import annotations

import unicodedata
from typing import Final

# Thousandths of the font's size → characters: Adobe's metrics of Helvetica and Helvetica-Bold,
# which Arial, Liberation Sans, Nimbus Sans and Arimo share.
_REGULAR: Final = {
    191: "'",
    222: "ijlł",
    260: "|",
    278: " !,./:;I[\\]ft",
    333: "()-`r",
    334: "{}",
    355: '"',
    389: "*",
    469: "^",
    500: "Jcksvxyz",
    556: "#$0123456789?L_abdeghnopquŁ",
    584: "+<=>~",
    611: "FTZßø",
    667: "&ABEKPSVXY",
    722: "CDHNRUw",
    778: "GOQØ",
    833: "Mm",
    889: "%æ",
    944: "Wœ",
    1000: "ÆŒ—",
    1015: "@",
}
_BOLD: Final = {
    238: "'",
    278: " ,./I\\ijlł",
    280: "|",
    333: "!()-:;[]`ft",
    389: "*r{}",
    474: '"',
    500: "z",
    556: "#$0123456789J_aceksvxy",
    584: "+<=>^~",
    611: "?FLTZbdghnopquŁßø",
    667: "EPSVXY",
    722: "&ABCDHKNRU",
    778: "GOQwØ",
    833: "M",
    889: "%mæ",
    944: "Wœ",
    975: "@",
    1000: "ÆŒ—",
}
_BLANK: Final = "\u00a0"
_UNIT: Final = 1_000


def _by_character(widths: dict[int, str]) -> dict[str, int]:
    return {character: width for width, all_of_it in widths.items() for character in all_of_it}


_WIDTHS: Final = {False: _by_character(_REGULAR), True: _by_character(_BOLD)}


def width_of(text: str, size: float, *, is_bold: bool) -> float | None:
    """Return the width of a line in the unit of `size`; None where a character is not known.

    A letter with an accent is as wide as the letter.
    """
    widths, total = _WIDTHS[is_bold], 0
    # Graphviz writes all of several blanks but the first as one that is not broken at.
    for character in text.replace(_BLANK, " "):
        width = widths.get(character, widths.get(unicodedata.normalize("NFD", character)[0]))
        if width is None:
            return None
        total += width
    return total * size / _UNIT
