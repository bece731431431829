"""Three real nodes and a gateway on damaged directories, in one process: what do they answer?

The process may end itself, as a node does that finds its store damaged; it is then started again
on the same directories, as a supervisor would.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import uvloop

from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import configure
from svc_cluster.cli.local.embedded import LoopbackLink
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.cli.processes.gateway_process import start_gateway
from svc_cluster.cli.processes.node_process import RunningNode
from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiClient, decode_batch
from svc_cluster.link.session import NodeSession
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_errors import SettingsError
from svc_cluster.storage.damage import EXIT_STORE_DAMAGED
from tests.corruption.dataset import NODES, SETTINGS, Dataset
from tests.log_lines import whole_lines

STARTS_MAX: Final = 5
RESULT: Final = "result.json"
_HANG_S: Final = 60.0
_READ_RECORDS: Final = 1000
_HOPELESS_S: Final = 1.5
"""How long a group that no majority of whole replicas is left of is asked for what it holds."""


@dataclass(slots=True)
class Result:
    """`outcome`: unharmed, repaired, refused, wrong, or fault (a process ended as it should not,
    or refused without a damaged replica to show for it)."""

    outcome: str
    what: str
    detail: str = ""
    seconds: float = 0.0


def run_trial(dataset: Dataset, directory: Path, what: str, patience_s: float) -> Result:
    """Start the damaged directories in child processes until one of them has a result."""
    began = time.monotonic()
    detail = ""
    for _ in range(STARTS_MAX):
        code = _in_child(dataset, directory, what, patience_s)
        if code == 0:
            result = Result(**json.loads((directory / RESULT).read_text()))
            result.seconds = round(time.monotonic() - began, 2)
            return result
        if code != EXIT_STORE_DAMAGED:
            lines = whole_lines(directory / "trial.log")[-30:]
            detail = f"exit status {code}:\n" + "\n".join(lines)
            break
        detail = "it does not come up"
    return Result("fault", what, detail, round(time.monotonic() - began, 2))


def _in_child(dataset: Dataset, directory: Path, what: str, patience_s: float) -> int:
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    code = 99
    try:
        log = os.open(directory / "trial.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        configure("info", "text")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            result = runner.run(_Trial(dataset, directory, what).run(patience_s))
        (directory / RESULT).write_text(json.dumps(asdict(result)))
        code = 0
    except BaseException as failure:
        sys.stderr.write(f"trial failed: {failure!r}\n")
        raise
    finally:
        sys.stderr.flush()
        os._exit(code)


class _Trial:
    def __init__(self, dataset: Dataset, directory: Path, what: str) -> None:
        self._dataset = dataset
        self._directory = directory
        self._what = what
        self._nodes: list[RunningNode] = []
        self._recovering = 0
        self._end = 0.0
        self._end_is_near = False
        self._refusals: list[str] = []

    async def run(self, patience_s: float) -> Result:
        ports = HeldPorts(2 * len(NODES) + 1)
        *numbers, port = ports.numbers
        addresses = {str(node): f"127.0.0.1:{numbers.pop()}" for node in NODES}
        secret = str(self._directory / "cluster.secret")
        for node in NODES:
            await self._start(node, addresses, numbers.pop(), secret)
        sessions = {}
        for running in self._nodes:
            session = NodeSession(asyncio.get_running_loop())
            LoopbackLink(running.node, session)
            sessions[NodeId(running.settings.node_id)] = session
        settings = GatewaySettings(
            cluster_id=self._dataset.cluster_id, nodes=addresses, secret_file=secret, port=port
        )
        await start_gateway(settings, sessions)
        async with asyncio.timeout(_HANG_S):
            return await self._look(f"http://127.0.0.1:{port}", patience_s)

    async def _start(self, node: int, addresses: dict[str, str], admin: int, secret: str) -> None:
        settings = NodeSettings(
            cluster_id=self._dataset.cluster_id,
            node_id=node,
            data_dir=str(self._directory / f"node-{node}"),
            nodes=addresses,
            secret_file=secret,
            admin_address=f"127.0.0.1:{admin}",
            **SETTINGS,
        )
        running = RunningNode(settings)
        try:
            await running.start()
        except SettingsError as refusal:
            self._refusals.append(str(refusal))
            return
        self._nodes.append(running)

    async def _look(self, url: str, patience_s: float) -> Result:
        """Read everything while the nodes repair themselves, then wait for that to end."""
        loop = asyncio.get_running_loop()
        self._end = loop.time() + patience_s
        self._note_recovering()
        readings = [
            loop.create_task(self._read(url, basin, stream))
            for basin, stream in self._dataset.acknowledged
        ]
        while not all(reading.done() for reading in readings):
            self._note_recovering()
            if self._is_hopeless() and not self._end_is_near:
                self._end_is_near = True
                self._end = min(self._end, loop.time() + _HOPELESS_S)
            await asyncio.sleep(0.02)
        problems = [reading.result() for reading in readings]
        wrong = [problem for problem in problems if problem.startswith("wrong")]
        if wrong:
            return Result("wrong", self._what, "; ".join(wrong))
        while (why := self._not_whole()) and loop.time() < self._end:
            self._note_recovering()
            await asyncio.sleep(0.02)
        refused = [problem for problem in problems if problem]
        if not refused and not why:
            outcome = "repaired" if self._recovering or self._set_aside() else "unharmed"
            return Result(outcome, self._what)
        detail = "; ".join([*self._refusals, *refused, why])
        explained = self._refusals or self._recovers_now()
        return Result("refused" if explained else "fault", self._what, detail)

    async def _read(self, url: str, basin: str, stream: str) -> str:
        """What is wrong with the stream's answers; empty when all records were read."""
        loop = asyncio.get_running_loop()
        expected = self._dataset.acknowledged[basin, stream]
        api = ApiClient(url)
        at, last = 0, "no answer"
        try:
            while at < len(expected) and loop.time() < self._end:
                try:
                    query = f"seq_num={at}&count={_READ_RECORDS}"
                    answer = await api.read(basin, stream, query, timeout_s=1.0)
                except ConnectionLostError as lost:
                    last = str(lost)
                    continue
                if answer.status in (404, 416):
                    return f"wrong: {basin}/{stream} at {at}: {answer.status}"
                if answer.status != 200:
                    last = f"{answer.status} {answer.body[:200]!r}"
                    await asyncio.sleep(0.1)
                    continue
                records = decode_batch(answer.body)
                got = [(record.seq_num, record.body) for record in records]
                if not got or got != list(enumerate(expected[at : at + len(got)], start=at)):
                    return f"wrong: {basin}/{stream} from {at}: {len(got)} records differ"
                at += len(got)
        finally:
            api.close()
        return "" if at == len(expected) else f"{basin}/{stream} from {at}: {last}"

    # What the nodes say of themselves

    def _rows(self) -> list[dict[str, Any]]:
        return [row for running in self._nodes for row in running.node.host.probe()]

    def _note_recovering(self) -> None:
        self._recovering = max(self._recovering, self._recovers_now())

    def _recovers_now(self) -> int:
        return sum(row["recovering"] for row in self._rows())

    def _is_hopeless(self) -> bool:
        counts: dict[int, int] = {}
        for row in self._rows():
            counts[row["group_id"]] = counts.get(row["group_id"], 0) + row["recovering"]
        return any(count > len(NODES) // 2 for count in counts.values())

    def _not_whole(self) -> str:
        states: dict[int, list[tuple[Any, ...]]] = {}
        for row in self._rows():
            state = (row["applied_index"], row["digest"], row["recovering"])
            states.setdefault(row["group_id"], []).append(state)
        for group, found in states.items():
            if len(found) != len(NODES) or len(set(found)) != 1 or found[0][2]:
                return f"group {group}: {found}"
        return (
            "" if len(states) == 1 + len({b for b, _ in self._dataset.acknowledged}) else "groups"
        )

    def _set_aside(self) -> bool:
        return any(self._directory.glob("node-*/state.damaged-*"))
