"""A follower's log under late, split and divergent messages."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.raft.engine import TERM_JUMP_MAX
from svc_cluster.raft.group import Message, PeerLieError
from svc_cluster.raft.messages import AppendRequest
from svc_cluster.raft.raft_settings import RaftSettings
from tests.unit.raft.harness import (
    Node,
    ack,
    answers,
    append,
    become_leader,
    entry,
    log_of,
    payload,
    terms_of,
)


def follower(*terms: int, commit_index: int = 0) -> Node:
    node = Node(1, [1, 2, 3], log_of(*terms, commit_index=commit_index))
    node.tick(1.0)
    return node


def test_a_late_heartbeat_does_not_shorten_the_log() -> None:
    """An old empty message behind which we have acknowledged more removes nothing (H1)."""
    node = follower()
    node.receive(2, append(1, (0, 0), *[1] * 10))
    node.sync()
    assert max(answer.next_index for answer in answers(node)) == 11
    node.receive(2, append(1, (5, 1)))
    assert terms_of(node) == [1] * 10


def test_a_resend_that_breaks_off_keeps_what_was_acknowledged() -> None:
    """A resend cut into several messages, of which only the first arrives, removes nothing (H1)."""
    node = follower()
    node.receive(2, append(1, (0, 0), *[1] * 6))
    node.sync()
    assert answers(node)[-1].next_index == 7
    node.receive(2, append(1, (2, 1), 1, 1, 1))
    node.sync()
    assert terms_of(node) == [1] * 6


def test_an_old_message_is_acknowledged_only_as_far_as_it_proves() -> None:
    """The answer to a message that ends before our log does names its end, not ours."""
    node = follower(1, 1, 1, 1, 2, 2)
    node.receive(2, append(3, (1, 1), 1, 1))
    node.sync()
    assert [answer.next_index for answer in answers(node)] == [4]
    assert terms_of(node) == [1, 1, 1, 1, 2, 2]


def test_only_the_conflicting_suffix_is_replaced() -> None:
    """Entries before the first conflict stay, those from it on are the leader's."""
    node = follower(1, 1, 2, 2, 2)
    node.receive(2, append(3, (1, 1), 1, 3, 3))
    assert terms_of(node) == [1, 1, 3, 3]
    node.sync()
    assert [e.term for e in node.disk.entries] == [1, 1, 3, 3]


def test_an_unproven_tail_is_not_committed_by_a_heartbeat() -> None:
    """The commit index rises only to what the message proves equal, not to our log's end."""
    node = follower(1, 1, 1, 2, 2)
    node.receive(2, append(3, (2, 1), commit_index=5))
    assert node.group.commit_index == 2


def test_a_leader_that_contradicts_what_is_committed_is_not_listened_to() -> None:
    """A conflict at or below the commit index is refused: nothing is removed, and the group goes
    on under a leader that tells the truth."""
    node = follower(1, 1, 1, commit_index=3)
    with pytest.raises(PeerLieError):
        node.receive(2, append(3, (1, 1), 2))
    with pytest.raises(PeerLieError):
        node.receive(2, append(3, (2, 2)))
    assert terms_of(node) == [1, 1, 1]
    node.receive(3, append(3, (3, 1), 3))
    assert terms_of(node) == [1, 1, 1, 3]


def test_a_term_from_too_far_ahead_is_not_followed() -> None:
    """Following it would use up the terms that there are; one that could be true is followed."""
    node = follower(1, 1)
    node.receive(2, append(1 + TERM_JUMP_MAX + 1, (2, 1)))
    assert node.group.term == 1
    node.receive(2, append(1 + TERM_JUMP_MAX, (2, 1)))
    assert node.group.term == 1 + TERM_JUMP_MAX


def test_entries_below_the_base_are_skipped() -> None:
    """A message that begins in the state store's part is taken from the base on."""
    node = Node(1, [1, 2, 3], log_of(2, base=(10, 2)), applied_index=10)
    node.tick(1.0)
    node.receive(2, append(2, (7, 1), 2, 2, 2, 2, 2))
    assert node.group.last_index == 12
    assert terms_of(node) == [2, 2]
    node.sync()
    assert answers(node)[-1].next_index == 13
    node.receive(2, append(2, (7, 1)))
    assert answers(node)[-1].next_index == 11


def test_a_divergent_follower_names_the_start_of_the_divergent_term() -> None:
    """One refusal leads the leader behind all entries of the divergent term (H9b)."""
    node = follower(1, 1, 2, 2, 2)
    node.receive(2, append(4, (5, 3)))
    node.sync()
    refusal = answers(node)[-1]
    assert (refusal.reset, refusal.next_index) == (True, 3)


def test_later_messages_do_not_lead_the_leader_forward_again() -> None:
    """What was under way when the leader was sent back is refused with the same place (H9b)."""
    node = follower(1, 2, 2)
    node.receive(2, append(4, (3, 3), 4, read_sequence=1))
    node.receive(2, append(4, (9, 4), 4, read_sequence=2))
    node.sync()
    assert [answer.next_index for answer in answers(node)] == [2, 2]
    node.receive(2, append(4, (1, 1), 4, read_sequence=3))
    node.receive(2, append(4, (9, 4), 4, read_sequence=4))
    assert [answer.next_index for answer in answers(node) if answer.reset] == [3]


def _messages_to_catch_up(divergent: int) -> int:
    """A leader with a tail of several messages meets a divergent follower. How many messages it
    sends before the follower has it all; at most 500."""
    settings = RaftSettings(append_batch_bytes=64, entry_bytes_max=48)
    leader = Node(1, [1, 2, 3], log_of(1, *[2] * 60), settings=settings)
    other = Node(2, [1, 2, 3], log_of(1, *[1] * divergent), settings=settings)
    now = become_leader(leader, 10.0, [3])
    other.tick(now)
    leader.sync()
    sent = 0
    for _ in range(30):
        now += 0.11
        leader.tick(now)
        for _ in range(30):
            requests = [body for to, body in leader.take_sent() if to == NodeId(2)]
            sent += len(requests)
            for request in requests:
                other.receive(1, request)
                other.sync()
            for _, response in other.take_sent():
                leader.group.step(Message(NodeId(2), response))
            leader.drain()
            if other.group.last_index == leader.group.last_index or sent > 500:
                return sent
        leader.receive(3, ack(leader.group.term, leader.group.last_index))
    return 500


def test_a_divergent_follower_costs_a_few_messages() -> None:
    """The leader goes back by a whole term at once, and what was under way does not lead it
    forward again (H9b)."""
    sent = _messages_to_catch_up(divergent=40)
    assert sent < 30


def test_a_late_acknowledgement_sends_nothing_twice() -> None:
    """While acknowledgements are under way, no entry is sent again (H9c)."""
    node = Node(1, [1, 2, 3])
    become_leader(node, 10.0, [3])
    node.sync()
    node.take_sent()
    term = node.group.term
    sent = 0
    for number in range(40):
        node.group.propose(payload(str(number)))
        node.drain()
        if number >= 10:
            node.receive(2, ack(term, node.group.last_index - 10))
        node.sync()
        sent += sum(
            len(body.entries)
            for to, body in node.take_sent()
            if to == NodeId(2) and isinstance(body, AppendRequest)
        )
    assert sent == 40


@pytest.mark.parametrize(
    "bad",
    [
        append(3, (0, 0), 1, 4),
        append(3, (0, 0), 2, 1),
        AppendRequest(
            append(3, (0, 0)).sender_term,
            append(3, (0, 0)).previous_index,
            append(3, (0, 0)).previous_term,
            append(3, (0, 0)).commit_index,
            (entry(2, 1),),
            1,
        ),
    ],
    ids=["term above the sender's", "falling term", "gap"],
)
def test_a_message_no_replica_would_send_is_dropped(bad: AppendRequest) -> None:
    """Entries must follow each other and terms must rise; otherwise nothing changes."""
    node = follower()
    node.receive(2, bad)
    assert node.group.last_index == 0
    assert node.group.term == 0


@pytest.mark.parametrize("first_byte", [0, 2, 3, 4, 255])
def test_an_entry_that_the_engine_would_interpret_is_dropped(first_byte: int) -> None:
    """Only opaque payloads and no-ops enter a log: other types are unpickled by the library."""
    node = follower()
    good = append(1, (0, 0), 1)
    e = good.entries[0]
    bad_entry = type(e)(e.log_index, e.term, bytes([first_byte]) + b"x")
    node.receive(
        2,
        AppendRequest(
            good.sender_term,
            good.previous_index,
            good.previous_term,
            good.commit_index,
            (bad_entry,),
            1,
        ),
    )
    assert node.group.last_index == 0
