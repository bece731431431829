"""What the configuration that an administrator sees does not tell."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from svc_cluster.administration.masking import VALUE_CHARACTERS_MAX, shown
from svc_cluster.settings import NodeSettings
from svc_cluster.settings_secrets import MASK

SECRET = "svct_" + "s" * 51


def seen(settings: dict[str, Any]) -> dict[str, tuple[Any, bool]]:
    return {each.key: (json.loads(each.value), each.masked) for each in shown(settings)}


def test_every_setting_is_shown_once_and_what_leads_to_a_secret_is_masked() -> None:
    """Of all settings of a node, set to something: the masked ones are exactly these."""
    settings = msgspec.to_builtins(
        NodeSettings(
            cluster_id="c",
            node_id=1,
            data_dir="/data",
            nodes={"1": "127.0.0.1:7000"},
            secret_file="/etc/secret",
            peer_tls_cert="/etc/tls.crt",
            peer_tls_key="/etc/tls.key",
            peer_tls_ca="/etc/ca.crt",
            root_token_file="/etc/root-token",
            access_tokens_max=5,
        )
    )
    rows = seen(settings)
    assert list(rows) == list(settings)
    masked = {key for key, (value, is_masked) in rows.items() if is_masked}
    assert masked == {"secret_file", "peer_tls_key", "root_token_file"}
    for key, (value, _) in rows.items():
        assert value == (MASK if key in masked else settings[key])


def test_what_is_not_set_is_seen_not_to_be() -> None:
    """A mask in place of nothing would say that there is something."""
    assert seen({"root_token_file": None}) == {"root_token_file": (None, False)}


def test_a_secret_under_another_name_is_masked_too() -> None:
    """Somebody put the token where a file name or a list of nodes belongs."""
    rows = seen({"audit_log": SECRET, "nodes": {"1": f"Bearer {SECRET}"}, "new_password": "x"})
    assert SECRET not in str(rows)
    assert all(masked for _, masked in rows.values())


def test_a_long_value_is_cut_and_still_json() -> None:
    """An answer stays within its bound whatever a file holds."""
    ((value, masked),) = seen({"locations": {f"l-{n}": False for n in range(1000)}}.copy()).values()
    assert isinstance(value, str)
    assert len(value) == VALUE_CHARACTERS_MAX + 3
    assert not masked


def test_what_a_url_holds_beside_its_place_is_masked() -> None:
    """Keys of collectors stand in queries, passwords before the host; the place can be read."""
    url = "https://someone:hidden@collector:4318/v1/traces"
    rows = seen(
        {"traces_endpoint": url + '?api-key=hi"dden&a=hidden', "public_url": url + "#hidden"}
    )
    assert rows == {
        "traces_endpoint": (f"https://{MASK}@collector:4318/v1/traces?{MASK}", True),
        "public_url": (f"https://{MASK}@collector:4318/v1/traces#{MASK}", True),
    }
    plain = {"traces_endpoint": "http://127.0.0.1:4318/v1/traces", "cors": "why? because"}
    assert seen(plain) == {key: (value, False) for key, value in plain.items()}


@pytest.mark.parametrize(
    "secret",
    ["-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n", "svc-backup-key-1 ab cd"],
)
def test_what_is_masked_leaves_json(secret: str) -> None:
    """A key in the place of its file, alone and inside a map: what follows is still told."""
    rows = seen({"tls_cert": secret, "nodes": {"1": secret, "2": "10.0.0.2:7000"}})
    assert all(masked for _, masked in rows.values())
    assert "MIIE" not in str(rows) and "cd" not in str(rows)
    assert rows["nodes"][0]["2"] == "10.0.0.2:7000"
