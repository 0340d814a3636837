"""The demo's orchestrator with named points, whose every save writes over a part of its row."""

import sys

from tools.lengths import as_long_rows
from tools.points import host

if __name__ == "__main__":
    with as_long_rows():
        host(sys.argv[1:])
