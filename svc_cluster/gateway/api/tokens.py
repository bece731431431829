"""Access tokens: issue, list, revoke. A secret is made here, shown once, and known to nobody else:
the catalog gets its hash."""

from __future__ import annotations

from svc_cluster.base.errors import (
    AlreadyExistsError,
    ErrorCode,
    InvalidError,
    MalformedError,
    NotImplementedYetError,
    UnauthenticatedError,
)
from svc_cluster.codec.json_body import encode_object
from svc_cluster.codec.json_list import page_steps
from svc_cluster.codec.request_key import body_hash
from svc_cluster.codec.token_json import decode_token_request, token_to_json
from svc_cluster.gateway.access.authentication import bearer_secret
from svc_cluster.gateway.access.authorization import require
from svc_cluster.gateway.access.sealed_secret import SecretSealer
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.paging import PAGE_MAX, ROW_BYTES, with_usable_end
from svc_cluster.gateway.api.request_token import write_key
from svc_cluster.gateway.cluster.token_client import TokenBackend
from svc_cluster.gateway.request.caching import NO_STORE
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.negotiation import (
    Query,
    check_request_token,
    page_limit,
    page_range,
)
from svc_cluster.http.message import Request, Response, json_response
from svc_cluster.model import names
from svc_cluster.model.access import Op, visible
from svc_cluster.model.access_secret import SECRET_BYTES, secret_hash, secret_text
from svc_cluster.model.access_token import AccessToken, TokenRequest, check_request


async def issue_token(call: Call) -> Response:
    tokens = _tokens(call)
    token = check_request_token(call.request)
    body = await call.json_body()
    request = decode_token_request(body, strict=call.head.is_strict)
    call.subject.token_id = request.token_id
    _check(request, body)
    require(call.caller.grant, Op.ISSUE_ACCESS_TOKEN, token_id=request.token_id)
    key = write_key(call, token, body_hash(body))
    sealer = None if token is None else _sealer(call.request, token, key)
    random_bytes = call.services.random_bytes
    secret = secret_text(random_bytes(SECRET_BYTES))
    before = await tokens.issue(
        request,
        secret_hash(secret),
        call.caller.asked_by,
        key=key,
        sealed_secret=b"" if sealer is None else sealer.seal(secret, random_bytes),
    )
    told = secret
    if before is not None:
        opened = None if sealer is None else sealer.open(before)
        if opened is None:
            raise AlreadyExistsError(
                "this request has issued an access token of this id; its secret is told again only "
                "to whoever shows the access token that the request was sent with"
            )
        told = opened
    return json_response(201, encode_object({"access_token": told}), [NO_STORE])


def _check(request: TokenRequest, body: bytes) -> None:
    """Raises InvalidError for what makes no sense whoever asks for it. A member that nothing reads
    is named behind that, and those there are: it may be a group of operations with a slip in it."""
    try:
        check_request(request)
    except InvalidError as refusal:
        try:
            decode_token_request(body, strict=True)
        except MalformedError as unknown:
            raise InvalidError(f"{refusal.message}; {unknown.message}") from None
        raise


def _sealer(request: Request, token: str, key: bytes) -> SecretSealer | None:
    """None: the request brings no secret of its own, so there is nothing to seal another with."""
    try:
        return SecretSealer(bearer_secret(request), token, key)
    except UnauthenticatedError:
        return None


async def list_tokens(call: Call) -> Response:
    tokens = _tokens(call)
    query = Query(call.request.query)
    prefix, start_after = page_range(query, strict=call.dialect is Dialect.SEED)
    for name, value in (("prefix", prefix), ("start_after", start_after)):
        if not names.is_token_id_prefix(value):
            raise MalformedError(
                ErrorCode.BAD_QUERY, names.not_a_prefix(name, value, names.TOKEN_ID_BYTES_MAX)
            )
    limit = page_limit(query)
    part = visible(call.caller.grant.access_tokens, prefix)
    found: list[AccessToken] = []
    has_more = False
    if part is not None:
        found, has_more = await tokens.page(
            part.prefix, start_after, limit if part.only is None else 1
        )
        if part.only is not None:
            found, has_more = [token for token in found if token.token_id == part.only], False
        found, has_more = await with_usable_end(
            found,
            has_more,
            lambda token: token.token_id,
            lambda token_id: tokens.page(part.prefix, token_id, PAGE_MAX),
        )
    name_prefix = call.caller.grant.name_prefix
    rows = (token_to_json(token, name_prefix) for token in found)
    steps = page_steps("access_tokens", rows, has_more=has_more)
    return json_response(200, await call.services.turns.run(steps, ROW_BYTES * len(found)))


async def revoke_token(call: Call) -> Response:
    """Answered once no gateway accepts the token, or any that came from it."""
    tokens = _tokens(call)
    token = check_request_token(call.request)
    token_id = call.match.token_id
    assert token_id is not None, "the route has a token in its path"
    key = write_key(call, token, body_hash(b""), token_id)
    await tokens.revoke(token_id, call.caller.asked_by, key=key)
    return Response(204)


def _tokens(call: Call) -> TokenBackend:
    if call.services.tokens is None:
        raise NotImplementedYetError("there are no access tokens here")
    return call.services.tokens
