"""The form of a database: numbered steps forward, each with its own record, all in one schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, LiteralString

import psycopg
from psycopg import IsolationLevel, errors, sql

from snapshots import limits
from snapshots.errors import MigrationError, NewerFileError, StorageError
from snapshots.storage.backends.postgres.addresses import shown
from snapshots.storage.backends.postgres.translation import translated
from snapshots.storage.scopes import check_text

if TYPE_CHECKING:
    from psycopg import Connection

Steps = tuple[tuple[LiteralString, ...], ...]

# Every text key has collation "C": its order is that of code points whatever the locale of the
# database, and an index serves a prefix. Policies fail closed: a setting that was never made
# is null, one whose transaction is over is empty, and neither equals any tenant.
_FIRST: Final = (
    """create function snapshots.now_ms(injected bigint) returns bigint language sql volatile
as $$ select coalesce(injected, (extract(epoch from clock_timestamp()) * 1000)::bigint) $$""",
    """create function snapshots.is_mine(tenant text, workspace text) returns boolean
language sql stable
as $$ select tenant = nullif(current_setting('snapshots.tenant', true), '')
  and workspace = nullif(current_setting('snapshots.workspace', true), '') $$""",
    """create table snapshots.workspaces (
  tenant text collate "C" not null,
  workspace text collate "C" not null,
  primary key (tenant, workspace)
)""",
    """create table snapshots.keyed (
  tenant text collate "C" not null,
  workspace text collate "C" not null,
  workflow text collate "C" not null,
  key text collate "C" not null,
  expires_ms bigint,
  value bytea not null,
  primary key (tenant, workspace, workflow, key)
)""",
    "create index keyed_expiring on snapshots.keyed (expires_ms) where expires_ms is not null",
    """create table snapshots.leases (
  tenant text collate "C" not null,
  workspace text collate "C" not null,
  workflow text collate "C" not null,
  name text collate "C" not null,
  token bigint not null,
  holder text not null,
  expires_ms bigint not null,
  primary key (tenant, workspace, workflow, name)
)""",
    "create index leases_expiring on snapshots.leases (expires_ms)",
    # The greatest token of the leases that were swept: a token is never given again.
    """create table snapshots.lease_floors (
  tenant text collate "C" not null,
  workspace text collate "C" not null,
  token bigint not null,
  primary key (tenant, workspace)
)""",
    """create table snapshots.carry (
  tenant text collate "C" not null,
  workspace text collate "C" not null,
  workflow text collate "C" not null,
  key text collate "C" not null,
  contract_version bigint not null,
  revision bigint not null check (revision >= 1),
  updated_ms bigint not null,
  payload bytea not null,
  primary key (tenant, workspace, workflow, key)
)""",
    "alter table snapshots.workspaces enable row level security",
    "alter table snapshots.workspaces force row level security",
    "create policy mine on snapshots.workspaces using (snapshots.is_mine(tenant, workspace))",
    "alter table snapshots.keyed enable row level security",
    "alter table snapshots.keyed force row level security",
    "create policy mine on snapshots.keyed using (snapshots.is_mine(tenant, workspace))",
    "alter table snapshots.leases enable row level security",
    "alter table snapshots.leases force row level security",
    "create policy mine on snapshots.leases using (snapshots.is_mine(tenant, workspace))",
    "alter table snapshots.lease_floors enable row level security",
    "alter table snapshots.lease_floors force row level security",
    "create policy mine on snapshots.lease_floors using (snapshots.is_mine(tenant, workspace))",
    "alter table snapshots.carry enable row level security",
    "alter table snapshots.carry force row level security",
    "create policy mine on snapshots.carry using (snapshots.is_mine(tenant, workspace))",
    # A sweep looks for the workspaces that have something to delete. It may see what has
    # expired, and deletes as each workspace in turn.
    """create policy swept on snapshots.keyed for select
using (expires_ms <= nullif(current_setting('snapshots.swept_ms', true), '')::bigint)""",
    """create policy swept on snapshots.leases for select
using (expires_ms <= nullif(current_setting('snapshots.swept_ms', true), '')::bigint)""",
)

_WORKSPACES: Final = (
    # The row that is locked for a write is also all that a look for news reads.
    "alter table snapshots.workspaces add column seq bigint not null default 0",
    """create table snapshots.workspace_entities (
  tenant text collate "C" not null,
  workspace text collate "C" not null,
  kind text collate "C" not null,
  key text collate "C" not null,
  label text collate "C" not null,
  revision bigint not null check (revision >= 1),
  created_ms bigint not null,
  updated_ms bigint not null,
  data bytea not null,
  primary key (tenant, workspace, kind, key)
)""",
    """create index workspace_labels
on snapshots.workspace_entities (tenant, workspace, kind, label, key)""",
    """create table snapshots.workspace_log (
  tenant text collate "C" not null,
  workspace text collate "C" not null,
  seq bigint not null check (seq >= 1),
  kind text not null,
  subject text not null,
  thread text,
  run text,
  at_ms bigint not null,
  data bytea not null,
  primary key (tenant, workspace, seq)
)""",
    """create table snapshots.workspace_history (
  tenant text collate "C" not null,
  workspace text collate "C" not null,
  thread text collate "C" not null,
  seq bigint not null,
  run text collate "C" not null,
  segment bigint not null check (segment >= 1),
  at_ms bigint not null,
  payload bytea not null,
  primary key (tenant, workspace, thread, seq)
)""",
    "alter table snapshots.workspace_entities enable row level security",
    "alter table snapshots.workspace_entities force row level security",
    """create policy mine on snapshots.workspace_entities
using (snapshots.is_mine(tenant, workspace))""",
    "alter table snapshots.workspace_log enable row level security",
    "alter table snapshots.workspace_log force row level security",
    "create policy mine on snapshots.workspace_log using (snapshots.is_mine(tenant, workspace))",
    "alter table snapshots.workspace_history enable row level security",
    "alter table snapshots.workspace_history force row level security",
    """create policy mine on snapshots.workspace_history
using (snapshots.is_mine(tenant, workspace))""",
)

# Whose line it is: a thread's name, nothing for one that is for every thread, null for one that
# is for none. The rule is `snapshots.storage.workspaces.rules.delivered_to`; one that changes
# takes a step here. Code that does not know the column writes it all the same.
_AUDIENCES: Final = (
    """alter table snapshots.workspace_log add column audience text collate "C"
generated always as (
  case when kind in ('artifact.created', 'artifact.changed', 'proposal.made',
    'proposal.accepted', 'proposal.rejected') then '' else thread end) stored""",
    """create index workspace_audience
on snapshots.workspace_log (tenant, workspace, audience, seq)""",
)

# Step n takes a database from n - 1 to n, and its record is written with it. A released step is
# never edited: databases that it made are out there.
STEPS: Final[Steps] = (_FIRST, _WORKSPACES, _AUDIENCES)
SCHEMA_VERSION: Final = len(STEPS)
# For each step, the step that code must know at least to go on using the database after it: a
# release that is being replaced runs beside its successor for a while.
LEAST_KNOWN: Final[tuple[int, ...]] = (1, 1, 1)

# Any number will do that no other program takes for its own lock.
_LOCK_KEY: Final = 0x536E6170
_OPEN: Final = "open"
_LOCK: Final = "select pg_advisory_xact_lock(%s)"
# A process that is frozen in the middle keeps the others out no longer than this.
_BOUND: Final = "select set_config('idle_in_transaction_session_timeout', %s, true)"
_ENCODING: Final = "select current_setting('server_encoding')"
_HAS_STEPS: Final = """
select 1 from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'snapshots' and c.relname = 'steps'"""
_VERSION: Final = """
select coalesce(max(number), 0), coalesce(max(least_known), 0) from snapshots.steps"""
_MAKE_SCHEMA: Final = "create schema if not exists snapshots"
_MAKE_STEPS: Final = """
create table if not exists snapshots.steps (
  number integer primary key,
  least_known integer not null,
  taken_ms bigint not null
)"""
_RECORD: Final = """
insert into snapshots.steps (number, least_known, taken_ms)
values (%s, %s, (extract(epoch from clock_timestamp()) * 1000)::bigint)"""
_ROLE: Final = "select rolsuper or rolbypassrls from pg_catalog.pg_roles where rolname = %s"
# The tables' names are known here, the role's is its administrator's.
_GRANTS: Final[tuple[LiteralString, ...]] = (
    "grant usage on schema snapshots to {role}",
    "grant select, insert, update, delete on all tables in schema snapshots to {role}",
    "revoke insert, update, delete on snapshots.steps from {role}",
    "grant usage on all sequences in schema snapshots to {role}",
)


def prepare(
    url: str,
    *,
    role: str | None = None,
    steps: Steps = STEPS,
    least_known: tuple[int, ...] = LEAST_KNOWN,
) -> None:
    """Bring the database to the last of `steps`, and let `role`, which owns nothing, use it.

    To be run as the role that shall own the tables, from any number of processes at once: they
    take turns. Raises `StorageUnavailableError`, `NewerFileError`, `MigrationError` if the role
    may not, or if `role` is not there or no policy applies to it, `InvalidKeyError` for one that
    could have no name; it has then changed nothing.
    """
    path = shown(url)
    if role is not None:
        check_text(role, "a role")
    timeout_s = limits.POSTGRES_CONNECT_MS_MAX // 1_000
    with (
        translated("prepare", path),
        psycopg.connect(url, connect_timeout=timeout_s) as connection,
    ):
        if role is not None:
            _require_bound(connection, path, role)
        migrate(connection, path, steps, least_known)
        if role is not None:
            for statement in _GRANTS:
                connection.execute(sql.SQL(statement).format(role=sql.Identifier(role)))


def migrate(
    connection: Connection,
    path: str,
    steps: Steps = STEPS,
    least_known: tuple[int, ...] = LEAST_KNOWN,
) -> None:
    """Bring the database to the last of `steps`, in one transaction; at it, only look.

    A database of a later release is taken as it is, if its steps let this one go on. Raises
    `NewerFileError` if they do not, `MigrationError` if steps are missing and the role may not
    take them.
    """
    assert len(steps) == len(least_known), "each step says who may go on after it"
    # Behind the lock the steps of others must be seen, whatever the server's default.
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    _require_utf8(connection, path)
    try:
        if _versions(connection)[0] < len(steps):
            _take_steps(connection, steps, least_known)
        _, needed = _versions(connection)
        connection.commit()
    except errors.InsufficientPrivilege as error:
        role = connection.info.user
        reason = (
            f"role {role!r} may not ({str(error).partition(chr(10))[0]}); prepare the storage as"
            f" the role that shall own its tables, and let {role!r} use it"
        )
        raise MigrationError(path, reason) from error
    if needed > len(steps):
        raise NewerFileError(path, needed, len(steps))


def _require_bound(connection: Connection, path: str, role: str) -> None:
    """Raise `MigrationError` for a role that row-level security could never hold."""
    row = connection.execute(_ROLE, (role,)).fetchone()
    connection.rollback()  # what follows is a transaction by itself, of its own isolation
    if row is None:
        reason = f"there is no role {role!r}: expected the one that will open the storage; create"
        raise MigrationError(path, f"{reason} it first, or leave role= out")
    if row[0]:
        reason = f"role {role!r} is a superuser or has BYPASSRLS, so that no policy applies to it"
        raise MigrationError(path, f"{reason}: expected one that is bound by row-level security")


def _take_steps(connection: Connection, steps: Steps, least_known: tuple[int, ...]) -> None:
    """Take what is missing: under a lock, since others may be doing the same."""
    connection.execute(_BOUND, (f"{limits.POSTGRES_SILENT_MS_MAX}ms",))
    connection.execute(_LOCK, (_LOCK_KEY,))
    connection.execute(_MAKE_SCHEMA)
    connection.execute(_MAKE_STEPS)
    for number in range(_versions(connection)[0] + 1, len(steps) + 1):
        for statement in steps[number - 1]:
            connection.execute(statement)
        connection.execute(_RECORD, (number, least_known[number - 1]))


def _versions(connection: Connection) -> tuple[int, int]:
    """Return the last step that was taken, and which one code must know; 0 before the first."""
    if connection.execute(_HAS_STEPS).fetchone() is None:
        return 0, 0
    row = connection.execute(_VERSION).fetchone()
    assert row is not None, "an aggregate has one row"
    return int(row[0]), int(row[1])


def _require_utf8(connection: Connection, path: str) -> None:
    row = connection.execute(_ENCODING).fetchone()
    assert row is not None, "a setting has one row"
    if row[0] != "UTF8":
        hint = "the order of its texts must be that of code points: create it with encoding UTF8"
        raise StorageError(_OPEN, path, hint, detail=f"the database has encoding {row[0]}")
