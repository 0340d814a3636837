"""A path before SQLite sees it: which are refused, and in which words."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from snapshots import (
    NetworkFileSystemError,
    StorageBusyError,
    StorageError,
    StorageReadOnlyError,
    StorageUnavailableError,
    limits,
    open_store,
)
from snapshots.database.places import (
    file_system_of,
    refuse_file_mount,
    refuse_network_file_system,
)

MOUNTS = """\
22 27 0:21 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:22 / /mnt/share rw - nfs4 server:/export rw
24 22 0:23 / /mnt/share/local rw - xfs /dev/vdb rw
25 22 0:24 / /mnt/with\\040space rw - cifs //server/x rw
26 22 0:25 / /mnt/covered rw - nfs4 server:/export rw
27 22 0:26 / /mnt/covered rw master:2 propagate_from:1 - tmpfs none rw
28 22 0:27 / /mnt/ssh rw - fuse.sshfs me@server: rw
a line that is no mount
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/state.db", "ext4"),
        ("/mnt/share/state.db", "nfs4"),
        ("/mnt/share/local/state.db", "xfs"),
        ("/mnt/sharedness/state.db", "ext4"),
        ("/mnt/with space/state.db", "cifs"),
        ("/mnt/covered/state.db", "tmpfs"),
        ("/mnt/ssh/deep/er/state.db", "fuse.sshfs"),
    ],
)
def test_the_nearest_mount_above_a_path_decides(path: str, expected: str) -> None:
    """The longest mount point counts, a later mount covers an earlier, names are unescaped."""
    assert file_system_of(path, MOUNTS) == expected


def test_a_path_that_no_mount_covers_is_of_no_known_type() -> None:
    """Without a line that fits, nothing is known and nothing is refused."""
    assert file_system_of("/state.db", "") is None
    refuse_network_file_system("/state.db", "")


@pytest.mark.parametrize(
    "kind",
    [
        *("nfs", "nfs3", "nfs4", "cifs", "smbfs", "smb3", "9p", "ceph", "lustre", "glusterfs"),
        *("afs", "beegfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.glusterfs"),
    ],
)
def test_a_network_file_system_is_refused_by_name(kind: str) -> None:
    """Where locks or shared memory do not reach every machine, no file is opened."""
    mounts = f"22 27 0:21 / / rw - {kind} source rw"
    with pytest.raises(NetworkFileSystemError, match=kind) as caught:
        refuse_network_file_system("/data/state.db", mounts)
    assert caught.value.file_system == kind
    assert caught.value.path == "/data/state.db"


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk"])
def test_a_local_file_system_is_accepted(kind: str) -> None:
    """A disk of this machine is what the file is made for."""
    refuse_network_file_system("/data/state.db", f"22 27 0:21 / / rw - {kind} source rw")


def test_an_empty_path_is_refused() -> None:
    """SQLite would take it for a temporary file that is deleted when it is closed."""
    with pytest.raises(StorageError, match=":memory:"):
        open_store("")


@pytest.mark.parametrize("name", ["a\0b.db", "a\udcff.db"])
def test_a_name_that_sqlite_cannot_take_is_refused(tmp_path: Path, name: str) -> None:
    """A null character would cut the name, a byte that is no UTF-8 cannot be passed on."""
    with pytest.raises(StorageError, match="UTF-8"):
        open_store(os.fspath(tmp_path) + "/" + name)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    """A folder's name is no file's, and the folder stays empty."""
    with pytest.raises(StorageError, match="a folder"):
        open_store(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    """A pipe is refused without being opened, which would wait for its other end."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="no regular file"):
        open_store(tmp_path / "pipe")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing folder is not made: the disk it belongs to may not be mounted yet."""
    with pytest.raises(StorageUnavailableError, match="folder") as caught:
        open_store(tmp_path / "missing" / "state.db")
    assert caught.value.retryable
    assert caught.value.path.endswith("missing/state.db")
    assert list(tmp_path.iterdir()) == []


def test_a_file_cannot_be_a_folder(tmp_path: Path) -> None:
    """A path that goes through a file is refused."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageUnavailableError):
        open_store(tmp_path / "file" / "state.db")


@pytest.mark.parametrize(
    "name", ["file:x?mode=memory", "a?b#c%20d.db", "with space.db", "':memory:'", "ü.db"]
)
def test_a_name_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    """No name is taken for a URI, and none for an option."""
    open_store(tmp_path / name).close()
    open_store(tmp_path / name).close()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that changes its folder keeps writing to the same file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with open_store("state.db") as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.take_over("me")
        assert store.path == os.path.realpath(tmp_path / "state.db")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_leads_to_the_file_itself(tmp_path: Path) -> None:
    """Through a link and without it, the same file and the same log are used."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "state.db")
    with open_store(tmp_path / "link.db") as store, open_store(store.path) as other:
        store.take_over("me")
        assert other.owner() is not None
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["state.db"]


def test_a_file_with_a_second_name_is_not_written(tmp_path: Path) -> None:
    """By either name; it can be looked at, and is written again once the other name is gone."""
    path, other = tmp_path / "state.db", tmp_path / "other.db"
    open_store(path).close()
    other.hardlink_to(path)
    for name in (path, other):
        with pytest.raises(StorageError, match="2 names"):
            open_store(name)
        open_store(name, read_only=True).close()
    other.unlink()
    open_store(path).close()


def test_a_file_that_is_mounted_by_itself_is_not_written() -> None:
    """Its log would lie outside of the mount; the folder is to be mounted."""
    mount = "28 22 0:27 /a/state.db /data/with\\040space/state.db rw - ext4 /dev/vda rw"
    with pytest.raises(StorageError, match="mount the folder"):
        refuse_file_mount("/data/with space/state.db", f"{MOUNTS}{mount}\n")
    refuse_file_mount("/data/with space/state.db-wal", f"{MOUNTS}{mount}\n")
    refuse_file_mount("/mnt/share/local/state.db", MOUNTS)


def test_a_backup_that_a_death_left_with_the_name_of_its_draft_is_written(tmp_path: Path) -> None:
    """It is whole, and nobody opens it by that name."""
    path = tmp_path / "state.db"
    open_store(path).close()
    (tmp_path / "state.db.unfinished-backup").hardlink_to(path)
    open_store(path).close()


UNPRIVILEGED = """
import os
import sys
from snapshots import StorageReadOnlyError, open_store
if os.getuid() == 0:  # whom no mode keeps from anything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
folder, mode = sys.argv[1:]
try:
    with open_store(folder + "/state.db", read_only=mode == "read") as store:
        print(len(store.headers()))
except StorageReadOnlyError as error:
    print(type(error).__name__, error.operation, error.hint)
"""


def as_nobody(folder: Path, mode: str) -> str:
    """Run the script above as a user who may write nothing here."""
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, os.fspath(folder), mode],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[4],
    )
    return done.stdout


@pytest.fixture
def locked_folder(tmp_path: Path) -> Path:
    """A folder with one stored file that everybody may read and nobody may write."""
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    folder = tmp_path / "locked"
    folder.mkdir()
    with open_store(folder / "state.db") as store:
        store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"{}")
    (folder / "state.db").chmod(0o444)
    folder.chmod(0o555)
    return folder


def test_a_file_that_may_not_be_written_is_refused_by_name(locked_folder: Path) -> None:
    """Whoever may only read is told so, and what would help."""
    said = as_nobody(locked_folder, "write")
    assert said.startswith("StorageReadOnlyError open")
    assert "writ" in said


def test_a_file_in_a_folder_that_may_not_be_written_can_be_read(locked_folder: Path) -> None:
    """Without a log the file is read by itself: no -shm file can be made beside it."""
    assert as_nobody(locked_folder, "read") == "1\n"
    assert [path.name for path in locked_folder.iterdir()] == ["state.db"]


def test_a_folder_that_may_not_be_written_takes_no_new_file(locked_folder: Path) -> None:
    """A file that cannot be created is refused by name."""
    locked_folder.chmod(0o755)
    (locked_folder / "state.db").unlink()
    locked_folder.chmod(0o555)
    said = as_nobody(locked_folder, "write")
    assert said.startswith(StorageReadOnlyError.__name__)


@pytest.fixture
def open_folder(locked_folder: Path) -> Path:
    """The same file, which nobody but root may write, in a folder that everybody may write."""
    locked_folder.chmod(0o777)
    return locked_folder


def test_a_look_by_another_user_leaves_nothing_that_its_owner_cannot_write(
    open_folder: Path,
) -> None:
    """A -wal or a -shm of that user would keep the file's owner from every save."""
    assert as_nobody(open_folder, "read") == "1\n"
    assert [path.name for path in open_folder.iterdir()] == ["state.db"]


def test_another_user_reads_a_live_file_through_its_log(open_folder: Path) -> None:
    """Where log and index are there already, nothing has to be made to see the newest saves."""
    (open_folder / "state.db").chmod(0o644)
    with open_store(open_folder / "state.db") as store:
        store.create(run_id="b", machine="m", digest="d", shape=b"{}", blob=b"{}")
        for path in open_folder.iterdir():
            path.chmod(0o444)
        assert as_nobody(open_folder, "read") == "2\n"


def test_a_log_without_an_index_is_not_read_by_another_user(open_folder: Path) -> None:
    """Only with an index of its own could it be, which would then lie there."""
    path, log = open_folder / "state.db", open_folder / "state.db-wal"
    path.chmod(0o644)
    with open_store(path) as store:
        store.take_over("me")
        text = log.read_bytes()
    log.write_bytes(text)
    for part in (path, log):
        part.chmod(0o444)
    assert as_nobody(open_folder, "read").startswith("StorageReadOnlyError open read a copy")
    assert sorted(entry.name for entry in open_folder.iterdir()) == ["state.db", "state.db-wal"]
    for part in (path, log):
        part.chmod(0o644)
    with open_store(path) as store:
        assert store.owner() is not None


WITHOUT_STREAMS = """
import os
import sys
for number in range(3):
    os.close(number)
from machines.lock import FileLock
from snapshots import open_store
path = sys.argv[1]
parts = {os.path.realpath(path + part) for part in ("", ".lock", ".copy.unfinished-backup")}
def streams(*_):
    found = {os.path.realpath(f"/proc/self/fd/{number}") for number in range(3)}
    taken.extend(found & parts)
taken = []
lock = FileLock(path).take()
streams()
for _ in range(2):  # a file that is made, and one that is there
    with open_store(path) as store:
        streams()
        store.backup(path + ".copy", progress=streams)
    os.unlink(path + ".copy")
lock.release()
sys.exit(len(taken))
"""


def test_no_file_is_opened_as_a_standard_stream(tmp_path: Path) -> None:
    """A process may begin without streams: what a crash prints then lands in no file of ours."""
    command = [sys.executable, "-c", WITHOUT_STREAMS, os.fspath(tmp_path / "state.db")]
    done = subprocess.run(command, cwd=Path(__file__).parents[4], check=False)
    assert done.returncode == 0


LOG_OF_THE_DEAD = """
import os
import signal
import sys
from snapshots import open_store
store = open_store(sys.argv[1])
store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"{}")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("leaves", ["nothing", "an empty file"])
def test_a_log_whose_file_is_gone_is_left_alone(
    tmp_path: Path, leaves: str, *, read_only: bool
) -> None:
    """SQLite would remove it, with the newest saves; back beside its file it is played into it."""
    path, aside = tmp_path / "state.db", tmp_path / "aside.db"
    command = [sys.executable, "-c", LOG_OF_THE_DEAD, os.fspath(path)]
    subprocess.run(command, cwd=Path(__file__).parents[4], check=False)
    path.rename(aside)
    if leaves == "an empty file":
        path.touch()
    with pytest.raises(StorageError, match=r"-wal has .* is gone"):
        open_store(path, read_only=read_only)
    assert path.exists() == (leaves == "an empty file")
    aside.replace(path)
    with open_store(path) as store:
        assert [header.run_id for header in store.headers()] == ["a"]


def test_an_empty_log_keeps_no_file_from_being_made(tmp_path: Path) -> None:
    """It holds nothing: what it belonged to was removed, and is begun anew."""
    (tmp_path / "state.db-wal").touch()
    with open_store(tmp_path / "state.db") as store:
        assert store.headers() == []


HOLDS = """
import sys
import apsw
from snapshots import open_store
path, kind = sys.argv[1:]
if kind == "log":
    held = open_store(path)
else:
    held = apsw.Connection(path)
    held.execute("begin; select * from runs")
print(flush=True)
sys.stdin.readline()
"""


def held(path: Path, kind: str) -> subprocess.Popen[str]:
    """Start a process that has a file open: one with a log, or one without that it reads."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, os.fspath(path), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[4],
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("part", ["-wal", "-shm"])
def test_a_file_whose_log_is_gone_under_another_process_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, *, read_only: bool
) -> None:
    """A new one would be written beside the other; nothing is made, and in the end it opens."""
    monkeypatch.setattr(limits, "OPEN_PATIENCE_MS", 5)
    path = tmp_path / "state.db"
    open_store(path).close()
    with held(path, "log") as holder:
        Path(f"{path}{part}").unlink()
        with pytest.raises(StorageBusyError, match=f"process {holder.pid} has it open"):
            open_store(path, read_only=read_only)
        assert not Path(f"{path}{part}").exists()
        holder.kill()
    open_store(path, read_only=read_only).close()


def test_a_holder_without_a_number_here_is_not_called_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container sees no processes of another one: the system then says that it is number 0."""
    monkeypatch.setattr(limits, "OPEN_PATIENCE_MS", 5)
    path = tmp_path / "state.db"
    open_store(path).close()
    held_elsewhere = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0)
    monkeypatch.setattr(fcntl, "fcntl", lambda *_: held_elsewhere)
    with pytest.raises(StorageBusyError, match="a process in another container has it open"):
        open_store(path)


def test_a_file_system_that_tells_of_no_locks_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system has against the question is told as what it has against opening."""
    path = tmp_path / "state.db"
    open_store(path).close()

    def refuse(*_: object) -> bytes:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with pytest.raises(StorageUnavailableError, match="No locks available"):
        open_store(path)


def test_a_file_without_a_log_is_read_beside_another_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup needs neither log nor index, however many look at it."""
    monkeypatch.setattr(limits, "OPEN_PATIENCE_MS", 5)
    path = tmp_path / "backup.db"
    with open_store(tmp_path / "state.db") as store:
        store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"{}")
        store.backup(path)
    with held(path, "no log") as holder:
        with open_store(path, read_only=True) as store:
            assert len(store.headers()) == 1
        holder.kill()
