"""What a setting's value is checked by, whichever process has it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from svc_cluster.model.join_token import JoinToken, parse_join_token
from svc_cluster.model.location import is_location_name
from svc_cluster.settings_errors import CredentialError, MissingFileError, SettingsError
from svc_cluster.settings_secrets import in_place_of_a_file, looks_like_secret, told_place

PORT_MAX: Final = 65_535
LOCATIONS_MAX: Final = 1_000
HOST_NAME_BYTES_MAX: Final = 253
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("json", "text")
CLIENT_CERTIFICATES: Final = ("optional", "required")


def check_locations(locations: Mapping[str, bool] | None) -> None:
    """Raises SettingsError unless there is one at least, and all have names of locations."""
    if locations is None:
        return
    if not 0 < len(locations) <= LOCATIONS_MAX:
        raise SettingsError(
            f"locations has {len(locations)} names: list 1 to {LOCATIONS_MAX}, or leave it out"
        )
    for name in locations:
        if not is_location_name(name):
            raise SettingsError(
                f"locations has {name!r}: use 1 to 64 letters, digits, dots, colons and hyphens"
            )


def check_client_certificates(
    wanted: str, authorities: str | None, *, under_tls: bool, asks_for_tokens: bool
) -> None:
    """Raises SettingsError. `wanted` is one of CLIENT_CERTIFICATES, `authorities` the file that
    they come from: they need a listener that speaks TLS, and tokens to stand for."""
    optional, required = CLIENT_CERTIFICATES
    if wanted not in CLIENT_CERTIFICATES:
        raise SettingsError(f"tls_client_certificate is {wanted!r}: use {optional} or {required}")
    if authorities is None:
        if wanted == required:
            raise SettingsError(
                "tls_client_certificate is required without tls_client_ca: name the file of the "
                "CAs that clients' certificates come from"
            )
        return
    if not under_tls:
        raise SettingsError(
            "tls_client_ca is set without tls_cert and tls_key: clients show certificates under "
            "TLS alone, set both"
        )
    if not asks_for_tokens:
        raise SettingsError(
            "tls_client_ca is set and nobody is asked for an access token: certificates stand for "
            "tokens, set authentication to true"
        )


def check_node_ids(nodes: Mapping[str, str]) -> None:
    """Raises SettingsError. Ids are the keys of `nodes`: decimal numbers above 0, each written one
    way only. Each has an address of its own."""
    if not nodes:
        raise SettingsError("nodes is empty: list every node of the cluster, id to host:port")
    for node in nodes:
        if not (node.isascii() and node.isdigit() and node[0] != "0" and len(node) <= 9):
            raise SettingsError(f"nodes has the id {node!r}: use a number from 1 to 999999999")
    _check_addresses(nodes)


def _check_addresses(nodes: Mapping[str, str]) -> None:
    """No two nodes at one address."""
    owners: dict[str, str] = {}
    for node, address in nodes.items():
        other = owners.setdefault(address, node)
        if other != node and not address.endswith(":0"):
            raise SettingsError(
                f"nodes has the address {address!r} for the nodes {other} and {node}: give each "
                "its own"
            )


def check_joins(nodes: Mapping[str, str], *, waits: bool) -> None:
    """Raises SettingsError for a node that is to come to a cluster and cannot find it."""
    if len(nodes) < 2:
        raise SettingsError(
            "join_token_file is set and nodes names this node alone: name at least one node of the "
            "cluster that it comes to"
        )
    if waits:
        raise SettingsError(
            "join and join_token_file are both set: with a token nobody has to be waited for, take "
            "join out"
        )


def check_place(key: str, name: str | None) -> None:
    """Raises SettingsError unless it is a name of a machine or a zone, or none."""
    if name and not _PLACE.fullmatch(name):
        raise SettingsError(
            f"{key} is {name!r}: use 1 to 64 letters, digits, dots, underscores and hyphens"
        )


_PLACE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


def check_host_names(key: str, hosts: Sequence[str], at_most: int) -> None:
    """Raises SettingsError unless these are that many names of hosts, without scheme and port."""
    if len(hosts) > at_most:
        raise SettingsError(f"{key} has {len(hosts)} names: list at most {at_most}")
    for host in hosts:
        labels = host.split(".")
        if len(host) > HOST_NAME_BYTES_MAX or not all(_HOST_LABEL.fullmatch(x) for x in labels):
            raise SettingsError(
                f"{key} has {told_place(host)!r}: write a host name alone, such as b.example.com, "
                "without scheme, port, or a dot at either end"
            )


_HOST_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def check_url(key: str, url: str | None) -> None:
    """Raises SettingsError unless it is an URL of HTTP, with a host and a path, or None."""
    if url is not None and not _URL.fullmatch(url):
        raise SettingsError(
            f"{key} is {told_place(url)!r}: write an URL with its path, such as "
            "http://collector:4318/v1/traces, without user and password"
        )


_URL: Final = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?/[!-~]*")


def check_range(key: str, value: float, minimum: float, maximum: float) -> None:
    """Raises SettingsError for a value beyond either bound."""
    if not minimum <= value <= maximum:
        raise SettingsError(f"{key} is {value}: use {minimum} to {maximum}")


def check_log(level: str, form: str) -> None:
    """Raises SettingsError."""
    if level.lower() not in LOG_LEVELS:
        raise SettingsError(f"log_level is {level!r}: use one of {', '.join(LOG_LEVELS)}")
    if form not in LOG_FORMATS:
        raise SettingsError(f"log_format is {form!r}: use one of {', '.join(LOG_FORMATS)}")


def check_address(key: str, address: str) -> None:
    """Raises SettingsError unless it is `host:port`."""
    host, _, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not (
        (_HOST_LABEL_OR_IP.fullmatch(bare) and len(bare) <= HOST_NAME_BYTES_MAX)
        and port.isascii()
        and port.isdecimal()
        and len(port) <= 5
        and int(port) <= PORT_MAX
    ):
        raise SettingsError(
            f"{key} has the address {told_place(address)!r}: write it as host:port, with a port of "
            f"0 to {PORT_MAX}"
        )


_HOST_LABEL_OR_IP: Final = re.compile(r"[A-Za-z0-9._:-]+")


def is_loopback(address: str) -> bool:
    """Whether `host:port`, or a host alone in front of a colon, is reached from this machine only.
    Names other than `localhost` are not: what they lead to may change."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_secret(key: str, name: str) -> None:
    """Raises CredentialError where the name of a file that cannot be read is probably what should
    stand in it."""
    if looks_like_secret(name):
        raise CredentialError(in_place_of_a_file(key))


def read_join_token(path: str, node_id: int) -> JoinToken:
    """The join token in a file. Raises SettingsError where it is not one for this node."""
    try:
        text = Path(path).read_text("ascii")
    except (OSError, UnicodeDecodeError) as cause:
        refuse_secret("join_token_file", path)
        why = cause.strerror if isinstance(cause, OSError) else "it is not text"
        raise MissingFileError(
            f"join_token_file {path} cannot be read ({why}): put the join token of `svc-cluster "
            "admin member add` there, readable for this user"
        ) from cause
    token = parse_join_token(text)
    if token is None:
        raise CredentialError(
            f"join_token_file {path} holds no join token: put the one of `svc-cluster admin member "
            f"add {node_id}` there"
        )
    if token.node_id != node_id:
        raise CredentialError(
            f"join_token_file {path} holds the join token of node {token.node_id}, and node_id is "
            f"{node_id}: correct one of them"
        )
    return token


def read_secret(path: str) -> bytes:
    """The cluster secret: at least 32 bytes, from a file. Raises SettingsError."""
    try:
        secret = Path(path).read_bytes().strip()
    except OSError as cause:
        refuse_secret("secret_file", path)
        raise MissingFileError(
            f"secret_file {path} cannot be read ({cause.strerror}): put the cluster's secret "
            "there, readable for this user"
        ) from cause
    if len(secret) < 32:
        raise CredentialError(
            f"secret_file {path} holds {len(secret)} bytes: put at least 32 random bytes there"
        )
    return secret
