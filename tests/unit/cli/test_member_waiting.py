"""`member add --wait` ends with a token that lets its node in, whatever was lost on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.base.ids import NodeId, TimestampMs
from svc_cluster.catalog.catalog_commands import AdmitNode, OpenTicket, RegisterNode, RemoveNode
from svc_cluster.catalog.catalog_state import CatalogRejected
from svc_cluster.cli.admin import admin_app, member_commands
from svc_cluster.cli.admin.admin_client import AdminError
from svc_cluster.cli.admin.member_waiting import (
    UNHEARD_SECONDS,
    FoundToken,
    MemberWaiting,
    WantedToken,
)
from svc_cluster.cli.admin.token_file import TokenFile, TokenFileError
from svc_cluster.model.join_token import MEMBER_ALREADY, TTL_SECONDS, JoinToken, hash_of
from tests.unit.backup.memory_objects import StoppedClock
from tests.unit.catalog.support import Catalog

FOUR = 4
WAIT_S = 600.0
OLD = JoinToken(FOUR, b"o" * 32)
SILENCE = AdminError("nothing listens")


class Cluster:
    """Implements MemberAdministration on a catalog. `silent`: so many calls reach nobody; `loses`:
    so many tokens are opened and the answer is lost; `is_behind`: it lists no member; `is_late`:
    the first question is decided behind the second, and none of the two is answered well."""

    def __init__(
        self, *, silent: int = 0, loses: int = 0, is_behind: bool = False, is_late: bool = False
    ) -> None:
        self.clock = StoppedClock()
        self.catalog = Catalog()
        self.asked = 0
        self._silent = silent
        self._loses = loses
        self._is_behind = is_behind
        self._is_late = is_late

    def open(self, token: JoinToken, ttl_seconds: int = TTL_SECONDS) -> str | None:
        """What a leader says of it; None: it is open."""
        known = self.catalog.state.tickets.open.get(NodeId(token.node_id))
        now_ms, secret_hash = self.clock.wall_ms(), hash_of(token.secret)
        if known is not None and known.expires_at_ms > now_ms and known.secret_hash == secret_hash:
            return None
        until = TimestampMs(now_ms + ttl_seconds * 1000)
        command = OpenTicket(NodeId(token.node_id), secret_hash, until, now_ms)
        (outcome,) = self.catalog.apply(command)
        return outcome.reason if isinstance(outcome, CatalogRejected) else None

    def comes(self, token: JoinToken) -> bool:
        """Whether a node is let in with it."""
        node = RegisterNode(NodeId(token.node_id), "a" * 32, "10.0.0.4:7000")
        command = AdmitNode(node, hash_of(token.secret), self.clock.wall_ms())
        return not isinstance(self.catalog.apply(command)[0], CatalogRejected)

    async def members(self) -> pb.MembersResponse:
        if self._silent:
            self._silent -= 1
            raise SILENCE
        rows = () if self._is_behind else self.catalog.state.nodes.values()
        return pb.MembersResponse(
            members=[pb.Member(node_id=row.node_id, state=row.state.name.lower()) for row in rows]
        )

    async def add_member(self, request: pb.AddMemberRequest) -> pb.AddMemberResponse:
        self.asked += 1
        token = self.shown[request.secret_hash]
        if self._is_late and self.asked == 1:
            raise SILENCE
        if self._is_late and self.asked == 2:
            self.open(token)
            raise AdminError(f"a join token for node {FOUR} is open", is_final=True)
        why = self.open(token, request.ttl_seconds)
        if why is not None:
            raise AdminError(why, is_final=True)
        if self._loses:
            self._loses -= 1
            raise SILENCE
        return pb.AddMemberResponse(node_id=request.node_id, expires_at_ms=1)

    async def pause(self, seconds: float) -> None:
        self.clock.now_ms += int(seconds * 1000)

    def run(self, path: Path, wait: float = WAIT_S) -> FoundToken:
        file = TokenFile(path, FOUR)
        self.shown = {} if file.kept is None else {hash_of(file.kept.secret): file.kept}

        def make() -> JoinToken:
            token = file.next_token()
            self.shown[hash_of(token.secret)] = token
            return token

        wanted = WantedToken(FOUR, TTL_SECONDS, make, file.kept)
        found = asyncio.run(MemberWaiting(self, wanted, wait, self.clock, self.pause).run())
        if found.token is not None and found.token != file.kept:
            file.take()
        return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "token"


def token_in(path: Path) -> JoinToken:
    kept = TokenFile(path, FOUR).kept
    assert kept is not None
    return kept


def holds(path: Path, token: JoinToken = OLD) -> None:
    path.write_text(token.text + "\n")


def test_an_answer_that_is_lost_costs_one_more_attempt(path: Path) -> None:
    """The token is open by then, and asked for again by its hash; it lets the node in."""
    cluster = Cluster(silent=3, loses=2)
    assert cluster.run(path).token == token_in(path)
    assert cluster.asked == 3
    assert path.stat().st_mode & 0o777 == 0o600
    assert cluster.comes(token_in(path))


def test_a_refusal_by_the_question_before_is_not_the_end(path: Path) -> None:
    """That was in the log already, and decided only ahead of its repetition."""
    cluster = Cluster(is_late=True)
    assert cluster.run(path).token == token_in(path)
    assert cluster.comes(token_in(path))


def test_a_process_that_dies_behind_its_question_is_gone_on_with(path: Path) -> None:
    """The next one asks for the token that is on the disk already."""
    cluster = Cluster(loses=10**6)
    with pytest.raises(AdminError):
        cluster.run(path, 5.0)
    assert not path.exists(), "nobody has said that it is good"
    cluster._loses = 0
    cluster.run(path)
    assert cluster.comes(token_in(path))
    assert [each.name for each in path.parent.iterdir()] == ["token"]


@pytest.mark.parametrize("what", ["expired", "withdrawn", "never opened"])
def test_a_token_file_that_lets_nobody_in_is_replaced(path: Path, what: str) -> None:
    cluster = Cluster()
    holds(path)
    if what != "never opened":
        assert cluster.open(OLD, 60) is None
    if what == "expired":
        cluster.clock.now_ms += 60_000
    if what == "withdrawn":
        cluster.catalog.apply(RemoveNode(NodeId(FOUR)))
    assert cluster.run(path).token == token_in(path) != OLD
    assert not cluster.comes(OLD)
    assert cluster.comes(token_in(path))


def test_a_token_file_is_enough_while_its_token_is_open(path: Path) -> None:
    cluster = Cluster(silent=2)
    holds(path)
    cluster.open(OLD)
    assert cluster.run(path) == FoundToken(OLD, 1)
    assert token_in(path) == OLD
    assert cluster.comes(OLD)


def test_anothers_open_token_is_left_alone(path: Path) -> None:
    """Who made it may have given it to the node: that is for an operator to withdraw."""
    other = JoinToken(FOUR, b"x" * 32)
    for is_there in (False, True):
        cluster = Cluster()
        cluster.open(other)
        if is_there:
            holds(path)
        with pytest.raises(AdminError, match="is open: use that, or withdraw it first"):
            cluster.run(path)
        assert path.exists() is is_there
        assert cluster.comes(other)


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_node_that_belongs_to_the_cluster_needs_no_token(path: Path, is_behind: bool) -> None:
    """Also where the node that is asked has not heard of it yet, and the leader says so."""
    for is_there in (False, True):
        cluster = Cluster(is_behind=is_behind)
        cluster.open(OLD)
        assert cluster.comes(OLD)
        if is_there:
            holds(path)
        assert cluster.run(path) == FoundToken(None)
        assert path.exists() is is_there
        assert NodeId(FOUR) in cluster.catalog.state.nodes


def test_a_cluster_that_is_not_heard_of_does_not_hold_up_who_has_a_token(path: Path) -> None:
    """The node that is asked may be down, and this one a member for long; without a token it is
    waited for to the end."""
    cluster = Cluster(silent=10**6)
    with pytest.raises(AdminError):
        cluster.run(path)
    assert cluster.clock.monotonic() - StoppedClock().monotonic() >= WAIT_S
    cluster = Cluster(silent=10**6)
    holds(path)
    assert cluster.run(path) == FoundToken(OLD)
    assert cluster.clock.monotonic() - StoppedClock().monotonic() == UNHEARD_SECONDS


@pytest.mark.parametrize("text", ["", "a letter", JoinToken(5, b"f" * 32).text])
def test_a_file_of_something_else_is_never_replaced(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(TokenFileError, match="holds no join token for node 4"):
        Cluster().run(path)
    assert path.read_text() == text


def test_a_half_written_token_was_told_to_nobody(path: Path) -> None:
    path.with_name("token.new").write_text(OLD.text[:30])
    cluster = Cluster()
    cluster.run(path)
    assert cluster.comes(token_in(path))


def test_a_place_that_cannot_be_written_is_said_before_anything_is_asked(path: Path) -> None:
    cluster = Cluster()
    with pytest.raises(TokenFileError, match="nothing was asked for"):
        cluster.run(path.parent / "missing" / "token")
    assert cluster.asked == 0


@pytest.mark.parametrize("form", ["table", "json"])
def test_what_has_come_of_the_wait_is_told_in_the_form_that_is_asked_for(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that starts with the cluster reads JSON also where its node is a member already."""
    monkeypatch.setattr(member_commands, "asked", lambda choice, call: FoundToken(None, None))
    arguments = ["member", "add", "4", "--wait", "1", "-o", form, "--address", "127.0.0.1:1"]
    done = CliRunner().invoke(admin_app.app, arguments)
    assert done.exit_code == 0, done.output
    told = f"node 4 {MEMBER_ALREADY}"
    assert done.stdout == (f"{told}\n" if form == "table" else f'{{"node_id":4,"told":"{told}"}}\n')
