"""A node whose disk was replaced by an empty one: it has no part, says so, and the others go on."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.api_client import ApiClient, AppendRecord, decode_batch
from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.replica.formation_file import FILE_NAME
from tests.e2e.load import set_up
from tests.integration.processes import READY_S, page, wait_page
from tests.log_lines import whole_lines
from tests.service_process import service

BASIN, STREAM = "refused-basin", "s"
DESTRUCTIVE = ("remove", "delete", "empty", "wipe", "rejoin", "new node id")


class Writer:
    """Appends one record after the other and reads all of them."""

    def __init__(self, url: str) -> None:
        self.api = ApiClient(url)
        self.bodies: list[bytes] = []

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.api.close()

    async def append(self, count: int) -> None:
        for _ in range(count):
            place = len(self.bodies)
            body = b"record %d" % place
            answer = await self.api.insist(
                SystemClock(),
                lambda body=body, place=place: self.api.append(
                    BASIN, STREAM, [AppendRecord(body)], match_seq_num=place
                ),
                accept=frozenset({200, 412}),
                deadline_s=READY_S,
            )
            if answer.status == 412:
                assert answer.json()["seq_num_mismatch"] == place + 1
            self.bodies.append(body)

    async def all_there(self) -> None:
        answer = await self.api.insist(
            SystemClock(),
            lambda: self.api.read(BASIN, STREAM, "seq_num=0&count=1000"),
            accept=frozenset({200}),
            deadline_s=READY_S,
        )
        assert [record.body for record in decode_batch(answer.body)] == self.bodies


def lines_of(path: Path, event: str) -> list[str]:
    return [line for line in whole_lines(path) if event in line]


def test_a_node_with_an_emptied_disk_is_refused_and_says_so(tmp_path: Path) -> None:
    """By both others: not ready, with the reason; an error line of its own and one line at each of
    the others, with its id; absent and refused in their metrics and on their pages. Appends go on
    all the time and all are there. With its directory back the node is whole again."""
    cluster = OwnCluster(tmp_path / "cluster", options=["--no-restart"])
    cluster.start()
    try:
        asyncio.run(_play(cluster, tmp_path))
    finally:
        cluster.end()


async def _play(cluster: OwnCluster, tmp_path: Path) -> None:
    await cluster.wait_ready(READY_S)
    await set_up(cluster.url, BASIN, [STREAM])
    with Writer(cluster.url) as writer:
        await _refused_and_back(cluster, tmp_path, writer)


async def _refused_and_back(cluster: OwnCluster, tmp_path: Path, writer: Writer) -> None:
    await writer.append(20)
    row = {number: cluster.node(number) for number in (1, 2, 3)}
    admin = {number: int(each["admin_port"]) for number, each in row.items()}
    cluster.kill_node(3, signal.SIGKILL)
    place, aside = Path(row[3]["data_dir"]), tmp_path / "the right one"
    place.rename(aside)
    log = tmp_path / "node-3.log"
    with service("node", cluster.directory / "node-3.yaml", log):
        text = await wait_page(admin[3], "/readyz?verbose", 503, "[-]formed", "another data dir")
        for word in DESTRUCTIVE:
            assert word not in text
        await wait_page(admin[3], "/metrics", 200, "svc_node_refused 1.0")
        for number in (1, 2):
            await wait_page(
                admin[number],
                "/metrics",
                200,
                'svc_raft_peer_refused{peer="3"} 1.0',
                'svc_raft_peer_active{peer="3"} 0.0',
                "svc_node_refused 0.0",
            )
            await wait_page(admin[number], "/debug/groups", 200, '"3": "refused"')
            refused = lines_of(cluster.directory / f"node-{number}.log", "caller_refused")
            assert len(refused) == 1 and "node=3" in refused[0], refused
        await writer.append(20)
        await writer.all_there()
        status, groups = await page(admin[3], "/debug/groups")
        assert status == 200 and '"groups": []' in groups, "it has opened nothing"
    said = lines_of(log, "node_refused")
    assert said and "error" in said[0] and not any(word in said[0] for word in DESTRUCTIVE)
    place.rename(tmp_path / "the empty one")
    aside.rename(place)
    with service("node", cluster.directory / "node-3.yaml", log):
        await wait_page(admin[3], "/readyz", 200)
        await wait_page(admin[1], "/debug/groups", 200, '"3": "up"')
        await writer.append(5)
        await writer.all_there()


def test_directories_of_before_the_formation_go_on(tmp_path: Path) -> None:
    """Without the file, as an earlier version left them: they serve, and write down as their list
    what the catalog has registered; a disk that is emptied then is refused."""
    cluster = OwnCluster(tmp_path / "cluster")
    cluster.start()
    try:
        asyncio.run(_first_life(cluster))
    finally:
        cluster.stop()
    places = [cluster.directory / f"node-{number}" for number in (1, 2, 3)]
    for place in places:
        formation = place / "wal" / FILE_NAME
        formation.unlink()
    again = OwnCluster(tmp_path / "cluster", options=["--no-restart"])
    again.start()
    try:
        asyncio.run(_second_life(again, tmp_path, places))
    finally:
        again.end()


async def _first_life(cluster: OwnCluster) -> None:
    await cluster.wait_ready(READY_S)
    await set_up(cluster.url, BASIN, [STREAM])
    with Writer(cluster.url) as writer:
        await writer.append(3)


async def _second_life(cluster: OwnCluster, tmp_path: Path, places: list[Path]) -> None:
    await cluster.wait_ready(READY_S)
    with Writer(cluster.url) as writer:
        await _go_on(cluster, tmp_path, places, writer)


async def _go_on(cluster: OwnCluster, tmp_path: Path, places: list[Path], writer: Writer) -> None:
    writer.bodies = [b"record %d" % number for number in range(3)]
    await writer.append(3)
    end = SystemClock().monotonic() + READY_S
    while not all((place / "wal" / FILE_NAME).exists() for place in places):
        assert SystemClock().monotonic() < end, "the list is written down"
        await asyncio.sleep(0.1)
    admin = int(cluster.node(2)["admin_port"])
    cluster.kill_node(2, signal.SIGKILL)
    places[1].rename(tmp_path / "the right one")
    with service("node", cluster.directory / "node-2.yaml", tmp_path / "node-2.log"):
        await wait_page(admin, "/readyz?verbose", 503, "[-]formed", "another data directory")
        await writer.append(3)
        await writer.all_there()
