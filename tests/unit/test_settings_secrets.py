"""What is said of settings that are refused has no secret in it, whatever stood in their place."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from svc_cluster.cli.processes.init_file import read_init_file
from svc_cluster.cli.processes.root_token import given_change
from svc_cluster.cli.processes.tls_files import peer_tls, public_certificate
from svc_cluster.model.access_secret import secret_text
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_checks import read_join_token, read_secret
from svc_cluster.settings_errors import EXIT_CREDENTIAL, SettingsError
from svc_cluster.settings_secrets import (
    MASK,
    looks_like_secret,
    names_secret,
    told_place,
    without_secrets,
)
from svc_cluster.settings_sources import load

TOKEN = secret_text(bytes(range(32)))
JOIN_TOKEN = "svc-join-2-" + "0123456789abcdef" * 4
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----"
RANDOM = (
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    base64.b64encode(bytes(range(100, 132))).decode(),
    base64.b32encode(bytes(range(100, 130))).decode(),
)
WORD = "Tr0ub4dor"
"""What no form tells to be a secret, but the place that it stands in."""
FILE = "cluster_id: c\nnodes: {'1': '127.0.0.1:1'}\nsecret_file: /nowhere\n"


def refusal(tmp_path: Path, text: str, **environment: str) -> str:
    """Return what is said of a gateway's file that is refused."""
    path = tmp_path / "gateway.yaml"
    path.write_text(FILE + text)
    with pytest.raises(SettingsError) as refused:
        load(GatewaySettings, path, environment)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"root_token: {WORD}", "there is no key root_token: remove it"),
        (f"secret: {WORD}", "there is no key secret: remove it, or correct it (did you mean"),
        (f"pass: [{WORD}]", "there is no key pass: remove it"),
        (f"tls_key: [{WORD}]", f"tls_key is {MASK}: expected `str | null`, got `array`"),
        (f"tls_key: {{a: {WORD}}}", f"tls_key is {MASK}: expected"),
        (f"port: http://u:{WORD}@h/p", f"port is 'http://{MASK}@h/p': expected `int`"),
        (f"port: http://h/{'a' * 60}?{WORD}", "expected `int`"),
        (f"traces_endpoint: http://u:{WORD}@h/v1", f"is 'http://{MASK}@h/v1': write an URL"),
        (f"traces_endpoint: http://u:a@b/{WORD}@h/v1", f"is 'http://{MASK}@h/v1': write an URL"),
        (f"traces_endpoint: http://h?key={WORD}", f"is 'http://h?{MASK}': write an URL"),
        (f"traces_endpoint: u:{WORD}@h/v1", f"is '{MASK}@h/v1': write an URL"),
        (f"public_hosts: ['u:{WORD}@h']", f"public_hosts has '{MASK}@h': write a host name"),
        (f"nodes: {{'1': 'u:{WORD}@h:1'}}", "twice, in the lines 2 and 4"),
        (f'x: "\n{WORD}', "is not YAML: found unexpected end of stream in line 5"),
        (f"x: *{WORD}", "is not YAML: found undefined alias what stands there in line 4"),
        (f"x: !{WORD} a", "is not YAML: could not determine a constructor for the tag what"),
        (f"x: !{WORD}' a", "is not YAML: could not determine a constructor for the tag what"),
        (
            f"x: {'{'}a: *{WORD}'",
            "is not YAML: expected alphabetic or numeric character, but found",
        ),
        (f"x: [1, 2\n{WORD}: 3", "is not YAML: expected ',' or ']', but got ':' in line 5"),
        (f"x: {WORD}: 3", "is not YAML: mapping values are not allowed here in line 4, column"),
    ],
)
def test_what_is_refused_in_a_file_is_not_repeated_where_it_may_be_a_secret(
    tmp_path: Path, text: str, told: str
) -> None:
    """By the place that it stands in: under a key that nobody knows or that speaks of a secret, in
    a URL, and in text that is no YAML. What is wrong is said all the same."""
    said = refusal(tmp_path, text)
    assert told in said
    assert WORD not in said


def test_a_variable_and_an_address_that_are_refused_repeat_nothing_either(tmp_path: Path) -> None:
    """The environment is read as YAML too."""
    said = refusal(tmp_path, "", SVC_CLUSTER_TLS_KEY=f"[{WORD}]")
    assert f"SVC_CLUSTER_TLS_KEY: tls_key is {MASK}: expected" in said
    assert WORD not in said
    said = refusal(tmp_path, "", SVC_CLUSTER_TLS_KEY=f"*{WORD}")
    assert "the environment variable SVC_CLUSTER_TLS_KEY is not YAML: found undefined" in said
    assert WORD not in said
    said = refusal(tmp_path, "", SVC_CLUSTER_NODES=f"{{'1': 'u:{WORD}@h:1'}}")
    assert f"nodes has the address '{MASK}@h:1'" in said
    assert WORD not in said


def test_a_long_value_is_masked_before_it_is_cut(tmp_path: Path) -> None:
    """Of half a URL nobody would see that what is left of it is a password."""
    said = refusal(tmp_path, f"port: http://{'u' * 60}:{WORD * 9}@h/v1")
    assert f"port is 'http://{MASK}@h/v1'" in said
    assert WORD[:3] not in said


@pytest.mark.parametrize("secret", [TOKEN, JOIN_TOKEN, PEM, *RANDOM])
def test_a_secret_in_place_of_its_files_name_is_not_repeated(tmp_path: Path, secret: str) -> None:
    """Of each setting that names such a file, and for init files and configurations; what to do is
    said, and the status is that of a secret that cannot be used."""
    peer = NodeSettings(
        cluster_id="c",
        node_id=1,
        data_dir="/",
        nodes={"1": "127.0.0.1:1"},
        secret_file="s",
        peer_tls_cert="c",
        peer_tls_key=secret,
        peer_tls_ca="a",
    )
    public = GatewaySettings(
        cluster_id="c", nodes={}, secret_file="s", tls_cert="c", tls_key=secret
    )
    declared = tmp_path / "init.json"
    quoted = secret.replace("\n", "\\n")
    declared.write_text(
        f'{{"access_tokens": [{{"id": "t", "secret_file": "{quoted}", '
        '"scope": {"ops": ["append"]}}]}'
    )
    for key, read in (
        ("secret_file", lambda: read_secret(secret)),
        ("join_token_file", lambda: read_join_token(secret, 1)),
        ("root_token_file", lambda: given_change(Path(secret))),
        ("init_file", lambda: read_init_file(Path(secret))),
        ("access_tokens[0].secret_file", lambda: read_init_file(declared)),
        ("peer_tls_key", lambda: peer_tls(peer)),
        ("tls_key", lambda: public_certificate(public)),
        ("--config", lambda: load(GatewaySettings, Path(secret), {})),
    ):
        with pytest.raises(SettingsError) as refused:
            read()
        said = str(refused.value)
        assert f"{key} looks like the secret itself, which is not repeated here" in said
        assert secret not in said
        assert refused.value.exit_status == EXIT_CREDENTIAL


@pytest.mark.parametrize(
    "name",
    [
        "/run/secrets/svc/root-token",
        "/var/lib/kubelet/pods/3f2504e0-4f89-41d3-9a0c-0305e82c3301/volumes/token",
        "secrets/node-1/join-token-of-the-second-node",
        "root_token",
        "deadbeef",
        "~/tokens/9f86d081884c7d659a2feaa0c55ad015",
        "9f86d081884c7d659a2feaa0c55ad015.pem",
        "../cluster.secret",
        "",
    ],
)
def test_names_of_files_are_told_as_they_are(name: str) -> None:
    """A message without the name that is wrong would help nobody."""
    assert not looks_like_secret(name)


def test_a_file_that_has_such_a_name_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what cannot be read is looked at."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / RANDOM[0]).write_text("s" * 32)
    assert read_secret(RANDOM[0]) == b"s" * 32


def test_texts_lose_what_looks_like_a_secret_and_nothing_else() -> None:
    """Tokens of each kind, keys, and what URLs hold beside their places."""
    key = "svc-backup-key-1 abc MTIz"
    for secret in (TOKEN, JOIN_TOKEN, PEM, f"Bearer {WORD}", key):
        said = without_secrets(f"told: {secret}")
        assert said.startswith("told: ")
        assert not any(word in said for word in (secret, WORD, "MTIz", "MHcC"))
    plain = "http://h:1/v1/traces of a@b, why? and C:\\x#1; the key file /x holds 3 bytes"
    assert without_secrets(plain) == plain
    assert without_secrets("http://a:b@c@h/p?x=1 more") == f"http://{MASK}@h/p?{MASK} more"
    assert told_place("127.0.0.1:99999") == "127.0.0.1:99999"
    assert told_place("http://h/p#x?y@z") == f"http://{MASK}@z"


def test_words_of_a_name_tell_that_it_holds_a_secret() -> None:
    """However the words are put together."""
    for key in ("secret", "root_token", "API-KEY", "db.password"):
        assert names_secret(key)
    for key in ("cluster_id", "access_tokens_max", "monkey", "zone"):
        assert not names_secret(key)
