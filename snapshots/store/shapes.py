"""Shapes that no run uses any more: found in slices, beside the sweep of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots import limits

if TYPE_CHECKING:
    from snapshots.database import Database

KEEP: Final = """
insert into shapes (digest, machine, shape) values (?, ?, ?) on conflict (digest) do nothing"""

_DIGESTS: Final = "select digest from shapes"
WALK: Final = """
select digest, max(id), count(*) from
  (select id, digest from runs where id > ? order by id limit ?)
group by digest"""
_DROP: Final = "delete from shapes where digest = ?"
_DATA_VERSION: Final = "select data_version from pragma_data_version"


class ShapeWalk:
    """Walks all runs, a slice at a time, and drops the shapes that it has not met.

    No index leads from a shape to its runs, since every save would pay for one. A shape is
    dropped only if no other connection has written since the walk began, and this one says
    with `keep` what it writes.
    """

    def __init__(self) -> None:
        """Begin at the first row."""
        self._unmet: set[str] | None = None
        self._last_row = 0
        self._version = 0

    def keep(self, digest: str) -> None:
        """Note that a run with this digest is being written."""
        if self._unmet is not None:
            self._unmet.discard(digest)

    def step(self, database: Database) -> None:
        """Look at one slice; at the last one, drop what no run uses. In a transaction."""
        if self._unmet is None:
            self._unmet = {row[0] for row in database.rows("walk shapes", _DIGESTS)}
            self._last_row = 0
            self._version = self._data_version(database)
        bindings = (self._last_row, limits.SHAPE_WALK_SLICE_ROWS)
        groups = database.rows("walk shapes", WALK, bindings)
        self._unmet.difference_update(digest for digest, _, _ in groups)
        if sum(count for _, _, count in groups) == limits.SHAPE_WALK_SLICE_ROWS:
            self._last_row = max(last for _, last, _ in groups)
            return
        if self._version == self._data_version(database):
            for digest in self._unmet:
                database.run(_DROP, (digest,))
        self._unmet = None

    def _data_version(self, database: Database) -> int:
        row = database.row("walk shapes", _DATA_VERSION)
        assert row is not None, "a pragma has one row"
        return int(row[0])
