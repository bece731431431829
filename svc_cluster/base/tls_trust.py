"""Which CAs a context of TLS goes by. Connections are ended that were made under more."""

from __future__ import annotations

import ssl


def trusted_by(context: ssl.SSLContext) -> frozenset[bytes]:
    """Return the certificates of the CAs that a context was given, in DER."""
    return frozenset(context.get_ca_certs(binary_form=True))
