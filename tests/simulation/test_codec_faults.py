"""An exception in any encoder or decoder is that of one request, one conversation or one group: the
others go on, nothing that was acknowledged is lost, and no number is given out twice (row D32)."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import os
import pkgutil
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from svc_cluster import codec
from svc_cluster.base.ids import CATALOG_GROUP
from tests.simulation import json_client
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.options import Options
from tests.simulation.workload import Client, WorkloadOptions

EVERY: Final = int(os.environ.get("CODEC_FAULTS_EVERY", "6"))
OPTIONS: Final = Options(
    gateways=2,
    http=True,
    basins=1,
    streams=2,
    faults=(),
    tick_seconds=0.05,
    workload=WorkloadOptions(
        clients=4, session_share=0.3, retry_share=0.3, trim_share=0.1, event_streams=True
    ),
)
BEFORE_S, ARMED_S = 1.0, 3.0

ENDS_THE_CONVERSATION: Final = {
    "json_body.encode_object": "where it makes the answer of a refusal, the connection ends",
    "peer_message.encode_envelope": "what was to be sent in a turn to one peer is lost",
    "peer_message.open_envelope": "the conversation with one peer ends, and another follows",
    "peer_message.decode_members": "the conversation with one peer ends, and another follows",
    "sse.batch_event": "the event stream ends with an event that says so",
    "sse.ping_event": "the event stream ends with an event that says so",
}
"""The event loop of a process ends what raises there. The simulated one, or its client, takes that
for a failure of the run."""

TOLD: Final = frozenset(
    {
        "answer_failed",
        "append_session_failed",
        "entry_not_kept",
        "entry_not_made",
        "group_stopped",
        "message_not_made",
        "proposal_failed",
        "request_failed",
        "task_failed",
        "usage_report_failed",
    }
)
"""The lines of the log in which a fault is told."""

STOPS_ITS_GROUP: Final = frozenset(
    {
        "entry_version.refuse_unknown_members",
        "log_entry.decode_steps",
        "peer_message.encode_message",
        "peer_message.payload_bytes",
    }
)
"""What applies entries, or sends them on, has no request to fail. A replica stops, on one node."""


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function of the codecs, by its module and name."""
    for found in pkgutil.walk_packages(codec.__path__, f"{codec.__name__}."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            is_own = inspect.isfunction(value) and value.__module__ == module.__name__
            if is_own and not name.startswith("_"):
                yield f"{found.name.rpartition('.')[2]}.{name}", value


FUNCTIONS: Final = dict(functions())
ONCE_FOUND: Final = (
    "lease_hand_over.get",
    "log_entry.comes_back",
    "log_entry.join_commands",
    "usage_pb.put_report",
)
"""A fault in one of these ended a process, a group, or all reports of a gateway's use."""

_OTHERS: Final = [one for one in FUNCTIONS if one not in {*ENDS_THE_CONVERSATION, *ONCE_FOUND}]
PLAYED: Final = [*ONCE_FOUND, *_OTHERS[::EVERY]]


class PlantedFault:
    """The next call behind `arm` raises, wherever in the cluster that is."""

    def __init__(self, function: Callable[..., Any], patch: pytest.MonkeyPatch) -> None:
        self.armed = False
        self.hits = 0

        is_grouped = next(iter(inspect.signature(function).parameters), "") == "group_id"

        @functools.wraps(function)
        def planted(*args: Any, **named: Any) -> Any:
            # a node without its catalog ends: the fault waits for a message of a basin's group
            if self.armed and not (is_grouped and args[0] == CATALOG_GROUP):
                self.armed = False
                self.hits += 1
                raise ZeroDivisionError("planted")
            return function(*args, **named)

        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("svc_cluster"):
                for name, value in list(vars(module).items()):
                    if value is function:
                        patch.setattr(module, name, planted)


def play(fault: PlantedFault) -> tuple[list[str], list[int]]:
    """The names of the error lines, and the nodes that have ended. Everything is started again
    then, and the histories are judged."""
    lines: list[str] = []
    ended: list[int] = []

    async def run(cluster: SimCluster) -> None:
        cluster.expected = ("",)
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        options = cluster.options.workload
        clients = [
            Client(cluster.recorder, cluster.apis, options, random.Random(number))
            for number in range(options.clients)
        ]
        working = [cluster.loop.create_task(client.run()) for client in clients]
        await cluster.guarded(asyncio.sleep(BEFORE_S), watch)
        fault.armed = True
        await cluster.guarded(asyncio.sleep(ARMED_S), watch)
        fault.armed = False
        before = cluster.recorder.counts.acked
        await cluster.guarded(asyncio.sleep(ARMED_S), watch)
        assert cluster.recorder.counts.acked > before, "everybody else goes on"
        for client in clients:
            client.stopping = True
        lines.extend(error.split()[0] for error in cluster.errors)
        ended.extend(int(node.node_id) for node in cluster.nodes if node.node is None)
        for node in cluster.nodes:
            if node.node is not None:
                node.crash(cluster.nemesis._rng)
                cluster.nemesis.forget_restart(node)
            node.start()
        await cluster.guarded(cluster.settle(working), watch)
        finals = [
            await cluster.guarded(cluster.read_all(h), watch) for h in cluster.recorder.streams
        ]
        watch.cancel()
        for history, final in zip(cluster.recorder.streams, finals, strict=True):
            cluster.judge(history, final)

    in_simulation(1, OPTIONS, run, expected=("",))
    return lines, ended


def test_what_ends_a_conversation_is_there() -> None:
    assert ENDS_THE_CONVERSATION.keys() | STOPS_ITS_GROUP <= FUNCTIONS.keys()
    assert len(FUNCTIONS) > 150


@pytest.mark.parametrize("name", PLAYED)
def test_a_fault_of_a_codec_is_nobody_elses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told in the log, no process ends, and a group stops on one node where nothing smaller
    could; where nothing on the way of these clients uses the function, nothing happens at all."""
    monkeypatch.setattr(json_client, "FAULTS_TOLD", {500})
    fault = PlantedFault(FUNCTIONS[name], monkeypatch)
    lines, ended = play(fault)
    assert ended == []
    assert set(lines) <= TOLD
    assert bool(lines) <= bool(fault.hits)
    if name not in STOPS_ITS_GROUP:
        assert "group_stopped" not in lines
    if name in ONCE_FOUND:
        assert "task_failed" not in lines
    assert lines.count("group_stopped") <= 1
