"""The certificates that the chart makes between its pods: by role, each with the names of that role
alone, of one CA, for 90 days at most. Looked at as another process sees them, in a handshake."""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Objects = dict[tuple[str, str], dict[str, Any]]

DAYS_MAX = 90
DAY_SECONDS = 86_400
FLIGHTS_MAX = 10
"""Messages each way of a handshake in memory; TLS needs three."""
DOMAIN = "svc-cluster.internal"


def faults(name: str, objects: Objects, nodes: int) -> Iterator[str]:
    """Nothing where the chart does not make them."""
    roles = {
        "node": [f"node-{number + 1}.{DOMAIN}" for number in range(nodes)],
        "gateway": [f"gateway.{DOMAIN}"],
        "administrator": [f"administrator.{DOMAIN}"],
    }
    for role, names in roles.items():
        requested = objects.get(("Certificate", f"demo-svc-cluster-{role}"))
        if requested is not None:
            spec = requested["spec"]
            if spec["dnsNames"] != names or spec["duration"] != f"{DAYS_MAX * 24}h":
                yield f"{name}: the certificate asked for as {role}: {spec}"
        made = objects.get(("Secret", f"demo-svc-cluster-{role}-tls"))
        if made is not None:
            yield from _made(f"{name}: the certificate for {role}", made["data"], names)


def mounts(name: str, node: dict[str, Any], gateway: dict[str, Any], own: bool) -> Iterator[str]:
    """Pods of a role mount the Secret of that role. `own`: the values name no others."""
    found = [
        volume["secret"]["secretName"]
        for role in (node, gateway)
        for volume in role["spec"]["template"]["spec"]["volumes"]
        if volume["name"] == "peer-tls"
    ]
    if own and found != ["demo-svc-cluster-node-tls", "demo-svc-cluster-gateway-tls"]:
        yield f"{name}: nodes and gateways mount {found}"


def _made(what: str, data: dict[str, str], names: list[str]) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as place:
        for file, text in data.items():
            (Path(place) / file).write_bytes(base64.b64decode(text))
        try:
            shown = _handshake(Path(place), names[0])
        except ssl.SSLError as refusal:
            yield f"{what} does not pass for {names[0]}: {refusal}"
            return
        alternative = [value for _, value in shown["subjectAltName"]]
        if alternative != names:
            yield f"{what} is for {alternative}, not for {names}"
        begin, end = (ssl.cert_time_to_seconds(shown[key]) for key in ("notBefore", "notAfter"))
        if end - begin > (DAYS_MAX + 1) * DAY_SECONDS:
            yield f"{what} lasts {(end - begin) / DAY_SECONDS:.0f} days"
        for other in {f"node-1.{DOMAIN}", f"gateway.{DOMAIN}", f"administrator.{DOMAIN}"}:
            if other in names:
                continue
            try:
                _handshake(Path(place), other)
            except ssl.SSLCertVerificationError:
                continue
            yield f"{what} passes for {other}"


def _handshake(place: Path, name: str) -> dict[str, Any]:
    """What a client is shown that asks for `name` and trusts the CA alone. Raises SSLError."""
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side, server_side = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
    )
    client_side.load_verify_locations(place / "ca.crt")
    server_side.load_cert_chain(place / "tls.crt", place / "tls.key")
    client = client_side.wrap_bio(inward, outward, server_hostname=name)
    server = server_side.wrap_bio(outward, inward, server_side=True)
    for _ in range(FLIGHTS_MAX):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found: Any = client.getpeercert()
    return dict(found)
