"""The row of one run: its parts joined to a blob, created once and then saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.binding.capturing import node_bytes
from machines.recovery.form import check_form
from machines.shape import shape_bytes
from snapshots.layout import join
from snapshots.records import RunHeader, StoredRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from machines.definition import Machine
    from machines.engine.tree import Tree
    from snapshots.records import Status
    from snapshots.store import SnapshotStore


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
        self.tree: dict[str, bytes] = {}
        """The parts that hold the tree, as they were saved last."""
        self.refusal: BaseException | None = None
        """What the last write that failed was refused with: a chart may raise the like itself."""
        self._fixed = {
            "v": b"1",
            "run": encode(run_id),
            "machine": encode(machine.name),
            "digest": encode(machine.digest),
            "input": encode(dict(given), root="input"),
        }

    def put(
        self,
        tree: dict[str, bytes],
        rest: Mapping[str, bytes],
        *,
        status: Status,
        reason: str | None,
        due_ms: int,
        parked: bool,
        sync: bool,
    ) -> None:
        """Write the run, for the first time or over what is there; raises what the store does.

        The first write of a run that a migration brought here takes today's digest, too.
        """
        try:
            self.header = self._written(
                self.blob(tree, rest),
                status=status,
                reason=reason,
                due_ms=due_ms,
                parked=parked,
                sync=sync,
            )
        except BaseException as error:
            self.refusal = error
            raise
        self.tree = tree

    def _written(
        self,
        blob: bytes,
        *,
        status: Status,
        reason: str | None,
        due_ms: int,
        parked: bool,
        sync: bool,
    ) -> RunHeader:
        if self.header is not None and self.header.digest != self.machine.digest:
            assert status == "live", f"run {self.run_id!r} is migrated to go on"
            return self.store.migrate(
                self.header,
                blob,
                machine=self.machine.name,
                digest=self.machine.digest,
                shape=shape_bytes(self.machine.chart),
                due_ms=due_ms,
                parked=parked,
            )
        if self.header is not None:
            return self.store.save(
                self.header,
                blob,
                status=status,
                reason=reason,
                due_ms=due_ms,
                parked=parked,
                sync=sync,
            )
        return self.store.create(
            run_id=self.run_id,
            machine=self.machine.name,
            digest=self.machine.digest,
            shape=shape_bytes(self.machine.chart),
            blob=blob,
            due_ms=due_ms,
            parked=parked,
            status=status,
            reason=reason,
        )

    def as_stored(self, rest: Mapping[str, bytes]) -> StoredRun:
        """Return the run as the row holds it, with what else belongs to it now."""
        assert self.header is not None
        return StoredRun(header=self.header, blob=self.blob(self.tree, rest))

    def blob(self, tree: Mapping[str, bytes], rest: Mapping[str, bytes]) -> bytes:
        """Return the parts as one blob."""
        return join({**self._fixed, **tree, **rest})

    def saved_tree(self) -> Any:
        """Return the tree that was saved last, as values."""
        return self.machine.codec.decode(join(self.tree))


def verify(
    tree: Tree,
    row: Row,
    fields: Mapping[str, bytes],
    rest: Mapping[str, bytes],
    ledgers: Mapping[str, bytes],
) -> None:
    """Assert that a blob holds what encoding all of it anew gives, and that it can be read.

    `ledgers` are those parts of `rest`, encoded in full.
    """
    for name, full in ledgers.items():
        assert rest.get(name) == full, f"run {row.run_id!r}: {name} moved and was not encoded again"
    assert tree.root is not None
    for node in tree.root.walk():
        node.fragment = None
    full = node_bytes(tree.root, row.machine, "root")
    assert full == fields["root"], f"run {row.run_id!r}: a chart moved and was not encoded again"
    check_form(row.run_id, row.machine.codec.decode(row.blob(fields, rest)))
