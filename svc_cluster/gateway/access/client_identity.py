"""Client certificates: which access token one stands for, and how long.

The subject's common name is the id of an access token. Whoever shows the certificate acts as that
token's holder, and with an access token or a read ticket beside it, as the holder of that one only
where it is the same: a certificate narrows what may be done with a secret, and never widens it.
Decided in docs/adr/0042. Source: contract 12.13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.base.errors import TokenMissingError, UnauthenticatedError
from svc_cluster.gateway.access.token_directory import End
from svc_cluster.gateway.request.host_names import is_of_other_origin
from svc_cluster.http.client_certificate import ClientCertificate
from svc_cluster.http.message import Request
from svc_cluster.model.access_token import ROOT_TOKEN_ID, AccessToken

CERTIFICATE_OVER: Final = "the client certificate has expired: connect again with a new one"
NO_CERTIFICATE: Final = "show a client certificate: its common name is the id of an access token"
WITHOUT_CERTIFICATE: Final = "show the client certificate of the access token, too"
NOT_ONE_NAME: Final = "the client certificate is to have one common name, the id of an access token"
AN_AUTHORITY: Final = "the client certificate is one of a CA: show one that the CA has signed"
NOT_FOR_ROOT: Final = "no client certificate stands for the root token: send its secret"
NO_SUCH_TOKEN: Final = "the client certificate names an access token that is unknown or revoked"
ANOTHER_TOKEN: Final = "the client certificate names another access token than the request shows"

OF_A_PAGE: Final = (
    "a page of another origin sends an access token: the certificate of its browser shows nothing"
)


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Who a connection's client is by its certificate."""

    token_id: str
    end: End
    """When the certificate ends."""

    def check_alone(self) -> None:
        """Raises UnauthenticatedError where the certificate does not do in place of a secret. Else
        whoever runs the CA of the clients could do everything, and a new root secret would end
        nothing."""
        if self.token_id == ROOT_TOKEN_ID:
            raise UnauthenticatedError(NOT_FOR_ROOT)

    def check(self, token: AccessToken) -> None:
        """Raises UnauthenticatedError for another token than the certificate's."""
        if token.token_id != self.token_id:
            raise UnauthenticatedError(ANOTHER_TOKEN)


def identity_of(certificate: ClientCertificate) -> ClientIdentity:
    """Raises UnauthenticatedError for a certificate that stands for no token."""
    names = certificate.common_names
    if certificate.is_authority:
        raise UnauthenticatedError(AN_AUTHORITY)
    if len(names) != 1 or not names[0]:
        raise UnauthenticatedError(NOT_ONE_NAME)
    return ClientIdentity(names[0], End(certificate.ends_at_ms, CERTIFICATE_OVER))


def check_is_no_page(request: Request) -> None:
    """Raises TokenMissingError for a page of another origin, which shows nothing by itself. A
    browser shows its user's certificate for whatever page asks. Source: contract 14.5."""
    if is_of_other_origin(request):
        raise TokenMissingError(OF_A_PAGE)


def certificate_missing(*, shows_secret: bool) -> UnauthenticatedError:
    """Return the refusal where nobody is let in without a certificate."""
    if shows_secret:
        return UnauthenticatedError(WITHOUT_CERTIFICATE)
    return TokenMissingError(NO_CERTIFICATE)
