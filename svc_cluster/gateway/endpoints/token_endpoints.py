"""Access tokens, and the read tickets of their holders."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.gateway.api import read_tickets, tokens
from svc_cluster.gateway.openapi.schemas import TOKEN_ID_PREFIX, ref
from svc_cluster.gateway.openapi.vocabulary import BODY_ERRORS, REQUEST_TOKEN_HEADER, page
from svc_cluster.gateway.request.endpoint import Description, Endpoint, Names, Need, of_account
from svc_cluster.http.message import JSON
from svc_cluster.model.access import Op

TOKENS: Final = (
    Endpoint(
        operation="list-access-tokens",
        method="GET",
        paths=("/v1/access-tokens",),
        handler=tokens.list_tokens,
        need=Need(Names.NONE, (Op.LIST_ACCESS_TOKENS,)),
        counted=of_account(Op.LIST_ACCESS_TOKENS),
        description=Description(
            summary="List access tokens in the order of their ids",
            status=200,
            answer={JSON: ref("AccessTokenList")},
            parameters=page(TOKEN_ID_PREFIX),
            seed_errors=(ErrorCode.INVALID,),
            errors=(ErrorCode.BAD_QUERY,),
        ),
    ),
    Endpoint(
        operation="issue-access-token",
        method="POST",
        paths=("/v1/access-tokens",),
        handler=tokens.issue_token,
        need=Need(Names.IN_BODY, (Op.ISSUE_ACCESS_TOKEN,)),
        is_audited=True,
        counted=of_account(Op.ISSUE_ACCESS_TOKEN),
        description=Description(
            summary="Issue an access token; its secret is shown this once",
            status=201,
            answer={JSON: ref("IssuedAccessToken")},
            body={JSON: ref("IssueAccessToken")},
            parameters=(REQUEST_TOKEN_HEADER,),
            errors=(
                *BODY_ERRORS,
                ErrorCode.RESOURCE_ALREADY_EXISTS,
                ErrorCode.QUOTA_EXHAUSTED,
                ErrorCode.TRANSACTION_CONFLICT,
            ),
        ),
    ),
    Endpoint(
        operation="revoke-access-token",
        method="DELETE",
        paths=("/v1/access-tokens/{id}",),
        handler=tokens.revoke_token,
        need=Need(Names.TOKEN, (Op.REVOKE_ACCESS_TOKEN,)),
        is_audited=True,
        counted=of_account(Op.REVOKE_ACCESS_TOKEN),
        description=Description(
            summary="Revoke an access token and all that come from it",
            status=204,
            answer={},
            parameters=(REQUEST_TOKEN_HEADER,),
            errors=(
                ErrorCode.BAD_PATH,
                ErrorCode.ACCESS_TOKEN_NOT_FOUND,
                ErrorCode.TRANSACTION_CONFLICT,
            ),
        ),
    ),
    Endpoint(
        operation="issue-read-ticket",
        method="POST",
        paths=("/v1/read-tickets",),
        handler=read_tickets.issue_ticket,
        need=Need(Names.IN_BODY, (Op.READ,)),
        is_audited=True,
        is_merged=True,
        description=Description(
            summary="Issue a read ticket, for at most an hour, in the name of the access token",
            status=201,
            answer={JSON: ref("IssuedReadTicket")},
            body={JSON: ref("IssueReadTicket")},
            errors=BODY_ERRORS,
        ),
    ),
)
