"""Wire form of the messages of the scrub, within that of messages between replicas."""

from __future__ import annotations

from typing import Any, Final, assert_never

from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.model.content import KEY_BYTES_MAX
from svc_cluster.raft.messages import (
    ScrubAnswer,
    ScrubMessage,
    ScrubOutcome,
    ScrubQuestion,
    ScrubVerdict,
)

COST_MAX: Final = 64 * 1024 * 1024
"""The largest cost of a chunk that anybody may ask for."""

_NUMBER_MAX: Final = 2**62


class ScrubMessageError(Exception):
    """A number or a length of it is out of range, or it is of no known kind."""


def put_scrub(out: Any, message: ScrubMessage) -> None:
    """Into a GroupMessage."""
    body: Any
    match message:
        case ScrubQuestion():
            body = out.scrub_question
            body.log_index = message.log_index
            body.after = message.after
            body.cost_max = message.cost_max
            body.round = message.round_number
            body.covered = message.covered
            body.completed_round = message.completed_round
            body.completed_ago_ms = message.completed_ago_ms
        case ScrubAnswer():
            body = out.scrub_answer
            body.outcome = message.outcome
            body.end, body.digest, body.rows = message.end, message.digest, message.rows
            body.flawed = message.flawed
            body.copied_from = message.copied_from
        case ScrubVerdict():
            body = out.scrub_verdict
            body.end, body.digest, body.rows = message.end, message.digest, message.rows
        case _:
            assert_never(message)
    body.version, body.encoding, body.chunk = message.version, message.encoding, message.chunk


def scrub_message(term: Term, message: Any) -> ScrubMessage:
    """Out of a GroupMessage that has one. Raises ScrubMessageError."""
    kind = message.WhichOneof("body")
    body = getattr(message, kind)
    chunk = _checked(body.chunk)
    if kind == "scrub_question":
        return ScrubQuestion(
            term,
            body.version,
            body.encoding,
            chunk,
            LogIndex(_checked(body.log_index)),
            _key(body.after),
            _cost(body.cost_max),
            _checked(body.round),
            body.covered,
            _checked(body.completed_round),
            _checked(body.completed_ago_ms),
        )
    end, rows = _key(body.end), _checked(body.rows)
    if kind == "scrub_verdict":
        return ScrubVerdict(term, body.version, body.encoding, chunk, end, body.digest, rows)
    try:
        outcome = ScrubOutcome(body.outcome)
    except ValueError as error:
        raise ScrubMessageError("an answer to the scrub of unknown outcome") from error
    return ScrubAnswer(
        term,
        body.version,
        body.encoding,
        chunk,
        outcome,
        end,
        body.digest,
        rows,
        body.flawed,
        _checked(body.copied_from),
    )


def _checked(number: int) -> int:
    if number > _NUMBER_MAX:
        raise ScrubMessageError("a number out of range")
    return number


def _cost(cost_max: int) -> int:
    if not 0 < cost_max <= COST_MAX:
        raise ScrubMessageError(f"a chunk of {cost_max} bytes")
    return cost_max


def _key(key: bytes) -> bytes:
    if len(key) > KEY_BYTES_MAX:
        raise ScrubMessageError(f"a key of {len(key)} bytes")
    return key
