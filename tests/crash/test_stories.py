"""What the charts of the scenarios do besides: a refusal, and a job that ends before its time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from machines import GateClosedError, Host
from machines.charts.service import ask
from machines.demo.hosted import HOSTED
from machines.demo.outside.book import Book
from machines.demo.outside.server import Server
from machines.demo.outside.studio import Studio
from snapshots.clock import SystemClock
from tests.host.world import until

OFFICES = ["legal", "security", "budget"]


def serving(book: Book) -> Iterator[str]:
    """Serve a book from this process; give the address."""
    with book, Server(book) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[str]:
    """Return the address of a studio."""
    yield from serving(Studio(str(tmp_path / "log"), "1", SystemClock()))


async def test_one_refusal_closes_every_gate(tmp_path: Path) -> None:
    """As many gates as offices are open at once; who answers after the refusal is told."""
    async with Host(str(tmp_path / "state.db"), HOSTED["approval"], verify=True) as host:
        given = {"number": "r", "offices": OFFICES, "service": "nobody calls it"}
        run = await host.start("release", given)
        gates = {gate.address: gate for gate in await host.gates(run)}
        assert list(gates) == [f"collecting.@{office}/waiting" for office in OFFICES]
        assert {gate.events for gate in gates.values()} == {("approve", "reject")}
        await host.answer(run, "collecting.@security/waiting", "reject", by="ann")
        view = await host.settled(run)
        assert (view.status, view.configuration) == ("failed", ("withdrawn",))
        assert view.context["signed"] == {"security": "ann"}
        assert view.gates == ()


async def test_a_second_answer_to_a_gate_is_refused_while_others_are_open(tmp_path: Path) -> None:
    """The run lives on, and the one who came second is told that it is closed."""
    async with Host(str(tmp_path / "state.db"), HOSTED["approval"], verify=True) as host:
        # Nothing listens there: the signature stays on its way, and its gate is closed.
        given = {"number": "r", "offices": OFFICES, "service": "127.0.0.1:9"}
        run = await host.start("release", given)
        await host.answer(run, "collecting.@legal/waiting", "approve", by="ann")
        with pytest.raises(GateClosedError):
            await host.answer(run, "collecting.@legal/waiting", "approve", by="bob")
        assert len(await host.gates(run)) == len(OFFICES) - 1
        await host.cancel(run)


async def test_a_film_whose_job_ends_before_its_time_is_abandoned(
    tmp_path: Path, studio: str
) -> None:
    """The studio drops the job while it is followed: the chart is told, and the run failed."""
    async with Host(str(tmp_path / "state.db"), HOSTED["reattach"], verify=True) as host:
        run = await host.start("rendering", {"number": "film", "service": studio})
        admissions = (await host.ledgers(run)).admissions
        await until(admissions.open, "the admission of the job")
        (job,) = admissions.open()
        ask(studio, "drop", job=job.handle)
        assert (await host.settled(run)).status == "failed"
