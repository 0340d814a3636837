"""The outside world of the orders: whoever charges, prints, carries and tells.

python -m machines.demo.outside.receiver LOG SEED
"""

from __future__ import annotations

import sys

from machines.demo.outside.book import Book
from machines.demo.outside.server import serve

if __name__ == "__main__":
    serve(Book, sys.argv[1:])
