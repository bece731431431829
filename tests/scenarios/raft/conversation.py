"""Plays a golden conversation: blocks of commands, `----`, and what they print.

nodes 3            that many fresh replicas, links up, disks that sync at each `settle`
elect 1            let node 1's election timeout pass, then settle
propose 1 text     say where node 1 put it, or that it refuses
settle             deliver and sync until nothing happens any more
advance 0.3        let that many seconds pass on every node, settling at each tick
isolate 1 / heal   cut node 1 off from all others / undo every cut
cut 1->2           lose what node 1 sends to node 2
crash 1            node 1 loses what was not synced and starts again
read 1             ask node 1 for a read index; `reads` tells what became of it
transfer 1 2       node 1 hands its leadership to node 2
trim 1             node 1 lets go of the log that it has applied
status             one line per node
"""

from __future__ import annotations

from pathlib import Path

from svc_cluster.base.ids import LogIndex, NodeId
from svc_cluster.raft.group import NotLeaderError, Trim
from tests.unit.raft.harness import Cluster, Node, payload

SEPARATOR = "----"


def blocks_of(path: Path) -> list[tuple[list[str], list[str]]]:
    """(commands, expected lines) of each block; blocks are separated by an empty line."""
    blocks = []
    for text in path.read_text().strip().split("\n\n"):
        commands, _, expected = text.partition(f"\n{SEPARATOR}")
        blocks.append((commands.splitlines(), expected.strip("\n").splitlines()))
    return blocks


def rewrite(path: Path) -> None:
    """Put down what the commands print now. Only for differences that are understood."""
    player = Player()
    texts = []
    for commands, _ in blocks_of(path):
        lines = [*commands, SEPARATOR, *player.play(commands)]
        texts.append("\n".join(lines))
    path.write_text("\n\n".join(texts) + "\n")


class Player:
    """State of one conversation."""

    def __init__(self) -> None:
        self.cluster = Cluster(1)

    def play(self, commands: list[str]) -> list[str]:
        lines: list[str] = []
        for command in commands:
            if not command.startswith("#"):
                verb, *words = command.split()
                lines += self._perform(verb, words)
        return lines

    def _node(self, word: str) -> Node:
        return self.cluster.nodes[NodeId(int(word))]

    def _perform(self, verb: str, words: list[str]) -> list[str]:
        cluster = self.cluster
        match verb, words:
            case "nodes", [count]:
                self.cluster = Cluster(int(count))
            case "elect", [node]:
                for _ in range(2):
                    cluster.now += 1.05
                    self._node(node).tick(cluster.now)
                cluster.settle()
            case "propose", [node, text]:
                return [self._propose(self._node(node), text)]
            case "settle", []:
                cluster.settle()
            case "advance", [seconds]:
                cluster.advance(float(seconds))
            case "isolate", [node]:
                cluster.isolate(int(node))
            case "heal", []:
                cluster.heal()
            case "cut", [link]:
                sender, _, to = link.partition("->")
                cluster.cut.add((int(sender), int(to)))
            case "crash", [node]:
                self._node(node).crash()
            case "read", [node]:
                return self._read(self._node(node))
            case "reads", [node]:
                states = self._node(node).read_states
                return [f"{node}: read {s.ticket} index={s.read_index}" for s in states]
            case "transfer", [node, to]:
                self._node(node).group.transfer_leadership(NodeId(int(to)))
                cluster.settle()
            case "trim", [node]:
                self._node(node).group.step(Trim(LogIndex(self._node(node).applied_index)))
            case "status", []:
                return [_status(node) for node in cluster.nodes.values()]
            case _:
                raise ValueError(f"unknown command: {verb} {words}")
        return []

    def _propose(self, node: Node, text: str) -> str:
        try:
            position = node.group.propose(payload(text))
        except NotLeaderError as refusal:
            return f"{node.node_id}: refused leader={refusal.leader}"
        return f"{node.node_id}: proposed at {position.log_index} term={position.term}"

    def _read(self, node: Node) -> list[str]:
        try:
            node.group.read_index()
        except NotLeaderError as refusal:
            return [f"{node.node_id}: refused leader={refusal.leader}"]
        return []


def _status(node: Node) -> str:
    group = node.group
    return (
        f"{node.node_id}: {group.role.value} term={group.term} leader={group.leader}"
        f" base={group.base_index} last={group.last_index} commit={group.commit_index}"
        f" applied={','.join(node.applied_texts())}"
    )
