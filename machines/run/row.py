"""The row of one run: its parts drawn as a blob, created once and then saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from machines.binding.capturing import encode_moved, node_bytes
from machines.recovery.form import check_form
from machines.shape import shape_bytes
from snapshots import limits
from snapshots.codec import load
from snapshots.layout import BEGIN, Canvas, unfold_blob
from snapshots.records import RunHeader, StoredRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from machines.definition import Machine
    from machines.engine.nodes import Node
    from snapshots.records import Status
    from snapshots.store import SnapshotStore

_COLUMNS_BYTES = 92
"""What the columns of fixed width take of a row at most, its header and the digest included."""


# Plain tuples, as every save makes one of each: a named one takes four times as long.
Parts: TypeAlias = tuple[dict[str, bytes], dict[str, bytes]]
"""What a blob holds beside its charts, as JSON by name: what nearly every save changes, and what
changes seldom."""
Head: TypeAlias = "tuple[Status, str | None, int, bool]"
"""What a save writes into the other columns: status, reason, due_ms, parked."""


class Row:
    """What is on disk of a run, and how it gets there."""

    def __init__(
        self, store: SnapshotStore, machine: Machine, run_id: str, given: Mapping[str, Any]
    ) -> None:
        encode = machine.codec.encode
        self.store = store
        self.machine = machine
        self.run_id = run_id
        self.header: RunHeader | None = None
        self.beside: dict[str, bytes] = {}
        """What the tree that was saved last holds beside its charts."""
        self.refusal: BaseException | None = None
        """What the last write that failed was refused with: a chart may raise the like itself."""
        names = (run_id, machine.name, machine.digest)
        self._begin = b'{"v":1,"run":%b,"machine":%b,"digest":%b' % (*map(encode, names),)
        self._input = encode(dict(given), root="input")
        self._opening = b"".join((self._begin, BEGIN["input"], self._input))
        """What is the same in every blob of the run, as a short one begins."""
        self._cold: tuple[dict[str, bytes], dict[str, bytes]] = {}, {"input": self._input}
        """What changes seldom, as it was given last, and with the input, which never does."""
        self._charts = b""
        """The charts that were saved last, as a member of the blob; empty where a canvas has
        them."""
        self._canvas: Canvas | None = None
        self._is_drawn = False
        """Whether the write that is under way has drawn over the canvas."""
        self._has_settled = True
        """Whether what was written last has come to stay, so that the next write may build on it:
        what is a part of somebody else's transaction can be undone, and nobody tells of it."""
        self._digest = machine.digest
        self.size = 0
        """How long the blob was that was written last, in bytes."""

    def hold(self, root: Node, beside: dict[str, bytes]) -> None:
        """Take a tree, which is encoded, for the one that the row holds."""
        self._charts, self._canvas = BEGIN["root"] + node_bytes(root), None
        self.beside = beside

    def put(
        self,
        root: Node | None,
        moved: list[Node],
        beside: dict[str, bytes],
        rest: Parts,
        head: Head,
        *,
        sync: bool,
        check: Callable[[bytes | bytearray], None] | None = None,
    ) -> None:
        """Write the run, for the first time or over what is there; raises what the store does.

        Without `root` the charts stay as they were saved last, and `beside` with them, else
        `moved` are those that moved since. The first write of a run that a migration brought here
        takes today's digest, too.
        """
        header = self.header
        status, reason, due_ms, parked = head
        self._is_drawn = False
        try:
            charts, canvas, blob = self._drawn(root, moved, beside, rest, live=status == "live")
            if check is not None:
                check(blob)
            if header is None or header.digest != self._digest:
                self.header = self._first(blob, status, reason, due_ms, parked=parked)
            else:
                changed = None
                if canvas is not None and self._is_drawn and self._has_settled:
                    changed = canvas.changed  # else it is not known where the row's blob differs
                self.header = self.store.save(
                    header,
                    blob,
                    status=status,
                    reason=reason,
                    due_ms=due_ms,
                    parked=parked,
                    sync=sync,
                    changed=changed,
                )
        except BaseException as error:
            if self._canvas is not None and self._is_drawn:
                self._canvas.undo()
            self.refusal = error
            raise
        self.beside, self._charts, self._canvas = beside, charts, canvas
        self.size = len(blob)
        self._has_settled = False

    def settle(self) -> None:
        """Let go of what taking the last write back would need: it has come to stay."""
        if self._canvas is not None:
            self._canvas.keep()
            self._has_settled = not self.store.in_transaction

    def keep(self) -> Callable[[], None]:
        """Return what takes back the writes from here on, where they did not come to stay."""
        header, beside, charts, canvas = self.header, self.beside, self._charts, self._canvas
        draws = canvas.draws if canvas is not None else 0

        def undo() -> None:
            if canvas is not None and canvas.draws > draws:
                canvas.undo()
            self.header, self.beside, self._charts, self._canvas = header, beside, charts, canvas

        return undo

    def _first(
        self,
        blob: bytes | bytearray,
        status: Status,
        reason: str | None,
        due_ms: int,
        *,
        parked: bool,
    ) -> RunHeader:
        """Write what has no row yet, or one of another shape."""
        machine, digest = self.machine.name, self._digest
        shape = shape_bytes(self.machine.chart)
        if self.header is not None:
            assert status == "live", f"run {self.run_id!r} is migrated to go on"
            return self.store.migrate(
                self.header,
                blob,
                machine=machine,
                digest=digest,
                shape=shape,
                due_ms=due_ms,
                parked=parked,
            )
        return self.store.create(
            run_id=self.run_id,
            machine=machine,
            digest=digest,
            shape=shape,
            blob=blob,
            due_ms=due_ms,
            parked=parked,
            status=status,
            reason=reason,
        )

    def _drawn(
        self,
        root: Node | None,
        moved: list[Node],
        beside: dict[str, bytes],
        rest: Parts,
        *,
        live: bool,
    ) -> tuple[bytes, Canvas | None, bytes | bytearray]:
        """Return the run as a blob: a short one, or the last of a run, without any room in it.

        Before it come the charts and the canvas, as they are to be kept once it is written.
        """
        canvas = self._canvas
        if canvas is None or not live:
            charts = self.charts if root is None else BEGIN["root"] + node_bytes(root)
            blob = self._joined(charts, beside, rest)
            if not live or root is None or len(blob) < limits.CANVAS_BYTES_MIN:
                return charts, None, blob
            canvas = Canvas(
                _COLUMNS_BYTES + len(self.run_id.encode()) + len(self.machine.name.encode())
            )
        self._is_drawn = canvas is self._canvas
        hot, cold = rest
        hot = {"step": hot["step"], **beside, **hot}
        if cold is not self._cold[0]:
            self._cold = cold, {"input": self._input, **cold}
        drawn = canvas.draw(self._begin, hot, self._cold[1], root, moved)
        if len(drawn) <= limits.BLOB_BYTES_MAX:
            return b"", canvas, drawn
        # What is too long with room to grow may fit without any.
        charts = canvas.charts if root is None else BEGIN["root"] + node_bytes(root)
        return charts, None, self._joined(charts, beside, rest)

    def _joined(self, charts: bytes, beside: Mapping[str, bytes], rest: Parts) -> bytes:
        parts = [self._opening]
        hot, cold = rest
        for members in (hot, beside, cold):
            for name, text in members.items():
                parts += (BEGIN[name], text)
        parts += (charts, b"}")
        return b"".join(parts)

    @property
    def root(self) -> bytes:
        """The charts that were saved last, as JSON; empty before that."""
        return self.charts.removeprefix(BEGIN["root"])

    @property
    def charts(self) -> bytes:
        """The charts that were saved last, as a member of the blob; empty before that."""
        return self._charts if self._canvas is None else self._canvas.charts

    def as_stored(self, rest: Parts) -> StoredRun:
        """Return the run as the row holds it, with what else belongs to it now."""
        assert self.header is not None
        return StoredRun(header=self.header, blob=self._joined(self.charts, self.beside, rest))

    def saved_tree(self) -> Any:
        """Return the tree that was saved last, as values."""
        parts: list[bytes] = [b'{"v":1']
        for name, text in self.beside.items():
            parts += (BEGIN[name], text)
        return self.machine.codec.decode_blob(b"".join((*parts, self.charts, b"}")))


def verify(row: Row, root: Node, blob: bytes | bytearray, expected: Mapping[str, bytes]) -> None:
    """Assert that a blob holds what encoding all of it anew gives, and that it can be read.

    `expected` are the parts beside the charts, encoded in full.
    """
    row.machine.outlines.clear()
    for node in root.walk():
        node.mark_moved()
        active = [*map(node.names.name, node.chart.configuration)]
        assert active == node.shown_now(), f"run {row.run_id!r}: other states are active"
    encode_moved(root.tree, row.machine)
    found = load(bytes(blob))
    _compare(row.run_id, "a chart", found["root"], load(node_bytes(root)))
    for name, full in expected.items():
        _compare(row.run_id, name, found.get(name), load(full))
    assert found.keys() <= {*expected, "v", "run", "machine", "digest", "input", "root"}
    for node in root.walk():
        active = [key for key in node.engine.invokes.active if key in node.children]
        assert active == [*node.children], f"run {row.run_id!r}: charts in another order"
    check_form(row.run_id, unfold_blob(row.machine.codec.decode_blob(bytes(blob)), row.run_id))


def _compare(run_id: str, name: str, found: object, expected: object) -> None:
    assert found == expected, f"run {run_id!r}: {name} moved and was not encoded again"
