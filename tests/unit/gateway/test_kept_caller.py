"""Who repeats a head by which it was let in is let in again, while its token is what it was."""

from __future__ import annotations

from svc_cluster.base.ids import TimestampMs
from svc_cluster.gateway.access.authentication import AccessControl, Caller
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.http.client_certificate import ClientCertificate
from svc_cluster.http.message import Connection, HeadNote, Request
from svc_cluster.model.access import ROOT_SCOPE
from svc_cluster.model.access_secret import secret_hash, secret_text
from svc_cluster.model.access_token import AccessToken
from tests.simulation.loop import run
from tests.unit.gateway.test_token_directory import HandClock, news

SECRET = secret_text(b"s" * 32)
TOKEN = AccessToken(1, "t1", secret_hash(SECRET), 0, ROOT_SCOPE)


class _Keeper:
    """Has asked the catalog a moment ago, whenever it is asked."""

    async def look_up(self) -> None:
        return


def told(directory: TokenDirectory, answer: TokenNews) -> None:
    directory.take(answer, 100.0)


def control(*, needs_certificate: bool = False) -> tuple[TokenDirectory, AccessControl]:
    directory = TokenDirectory(HandClock())
    told(directory, news(1, (1, TOKEN)))
    keeper = _Keeper()
    access = AccessControl(directory, keeper, needs_certificate=needs_certificate)  # type: ignore[arg-type]
    return directory, access


def request(note: HeadNote | None, connection: Connection | None = None) -> Request:
    made = Request("GET", "/v1/basins", "", [("authorization", f"Bearer {SECRET}")])
    made.head_note = note
    if connection is not None:
        made.connection = connection
    return made


async def found(access: AccessControl, asked: Request) -> Caller:
    return await access.caller_of(asked)


def test_a_caller_is_kept_beside_its_head_and_nowhere_else() -> None:
    async def main() -> None:
        _, access = control()
        note = HeadNote()
        assert access.kept_caller(request(note)) is None
        holder = await found(access, request(note))
        assert access.kept_caller(request(note)) is holder
        assert access.kept_caller(request(HeadNote())) is None
        assert access.kept_caller(request(None)) is None
        await found(access, request(None))

    run(lambda loop: main())


def test_a_token_that_is_revoked_or_told_anew_is_looked_up() -> None:
    async def main() -> None:
        directory, access = control()
        note = HeadNote()
        holder = await found(access, request(note))
        told(directory, news(2, (1, None)))
        assert access.kept_caller(request(note)) is None
        told(directory, news(3, (1, AccessToken(1, "t1", TOKEN.secret_hash, 0, ROOT_SCOPE))))
        assert access.kept_caller(request(note)) is None
        again = await found(access, request(note))
        assert again is not holder
        assert access.kept_caller(request(note)) is again

    run(lambda loop: main())


def test_whoever_shows_a_certificate_is_looked_at_each_time() -> None:
    """The connection may outlive what it stands for."""

    async def main() -> None:
        _, access = control()
        note = HeadNote()
        holder = await found(access, request(note))
        assert access.kept_caller(request(note)) is holder
        certificate = ClientCertificate(("t1",), TimestampMs(10**13), "f" * 64)
        shown = Connection("10.0.0.1", certificate)
        assert access.kept_caller(request(note, shown)) is None

    run(lambda loop: main())


def test_where_certificates_are_wanted_nobody_is_kept() -> None:
    async def main() -> None:
        _, strict = control(needs_certificate=True)
        _, access = control()
        note = HeadNote()
        holder = await found(access, request(note))
        assert access.kept_caller(request(note)) is holder
        assert strict.kept_caller(request(note)) is None

    run(lambda loop: main())
