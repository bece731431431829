"""Init files: what each member comes to, and where in the file a refusal says it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from svc_cluster.codec.declarations_json import (
    DECLARATIONS_MAX,
    INIT_FILE_BYTES_MAX,
    DeclarationError,
    decode_declarations,
)
from svc_cluster.codec.duration import seconds_of
from svc_cluster.model.access import Op
from svc_cluster.model.declarations import Declarations, SecretSource
from svc_cluster.model.record import TimestampingMode
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig, Retention

TOKEN: dict[str, Any] = {"id": "t", "scope": {"ops": ["read"]}, "secret_file": "t.token"}


def decoded(value: object) -> Declarations:
    return decode_declarations(json.dumps(value).encode())


def test_a_whole_file_is_what_it_says() -> None:
    """Every member of the form, once; null and absent mean the same."""
    found = decoded(
        {
            "$schema": "https://example.com/schema.json",
            "basins": [
                {
                    "name": "my-basin-1",
                    "location": "eu-1",
                    "config": {
                        "create_stream_on_append": True,
                        "create_stream_on_read": None,
                        "stream_cipher": "aegis-256",
                        "default_stream_config": {
                            "storage_class": "express",
                            "retention_policy": "7days",
                            "timestamping": {"mode": "client-require", "uncapped": False},
                            "delete_on_empty": {"min_age": "1day"},
                        },
                    },
                    "streams": [
                        {"name": "events", "config": {"retention_policy": "Infinite"}},
                        {"name": "plain", "config": None},
                    ],
                },
                {"name": "my-basin-2", "config": None},
            ],
            "access_tokens": [TOKEN | {"secret_file": None, "secret_env": "T"}],
        }
    )
    first, second = found.basins
    assert (first.path, first.name, first.location) == ("basins[0]", "my-basin-1", "eu-1")
    assert first.config == BasinConfig(
        default_stream_config=PartialStreamConfig(
            "express", Retention(604_800), TimestampingMode.CLIENT_REQUIRE, False, 86_400
        ),
        stream_cipher="aegis-256",
        create_stream_on_append=True,
        create_stream_on_read=False,
    )
    assert [(each.path, each.name, each.config) for each in first.streams] == [
        ("basins[0].streams[0]", "events", PartialStreamConfig(retention=Retention(None))),
        ("basins[0].streams[1]", "plain", PartialStreamConfig()),
    ]
    assert (second.config, second.location, second.streams) == (BasinConfig(), None, ())
    (token,) = found.tokens
    assert token.request.scope.ops == (Op.READ,)
    assert token.source == SecretSource("access_tokens[0].secret_env", variable="T")
    assert found.count == 5
    assert decoded({}) == Declarations()


def basin(**members: object) -> dict[str, object]:
    return {"basins": [{"name": "my-basin-1"}, {"name": "my-basin-2"} | members]}


def streams(*configs: object) -> dict[str, object]:
    return basin(streams=[{"name": f"s{n}", "config": each} for n, each in enumerate(configs)])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "Expected `object`, got `array`"),
        ({"basin": []}, "there is no member `basin`"),
        (basin(name="UPPER-CASE"), "basins[1].name: "),
        (basin(name="my-basin-1"), "basins[1].name: `my-basin-1` is declared by basins[0] already"),
        (basin(colour="red"), "there is no member `basins[1].colour`"),
        (basin(config={"storage_class": "x"}), "there is no member `basins[1].config.storage_cl"),
        (basin(config={"stream_cipher": "rot13"}), "`$.basins[1].config.stream_cipher`"),
        (basin(location="no space"), "basins[1].location: a location's name has"),
        (basin(streams=[{"name": ""}]), "basins[1].streams[0].name: "),
        (basin(streams=[{"name": "s"}] * 2), "basins[1].streams[1].name: `s` is declared by"),
        (streams({}, {"retention_policy": "0s"}), "streams[1].config.retention_policy: the age"),
        (streams({"retention_policy": "soon"}), "retention_policy: a duration is numbers with"),
        (streams({"retention_policy": 7}), "Expected `str | null`, got `int`"),
        (streams({"retention_policy": "1500ms"}), "a duration has whole seconds here"),
        (streams({"delete_on_empty": {"min_age": "9" * 20 + "y"}}), "delete_on_empty.min_age: a d"),
        (streams({"timestamping": {"mode": "never"}}), "timestamping.mode"),
        (streams({"storage_class": "glacier"}), "basins[1].streams[0].config.storage_class: stor"),
        ({"access_tokens": [TOKEN | {"secret": "svct_"}]}, "no member `access_tokens[0].secret`"),
        ({"access_tokens": [TOKEN, TOKEN]}, "access_tokens[1].id: `t` is declared by"),
        ({"access_tokens": [TOKEN | {"id": "root"}]}, "access_tokens[0].id: the root token"),
        ({"access_tokens": [TOKEN | {"secret_env": "T"}]}, "secret_env, this one has both"),
        ({"access_tokens": [TOKEN | {"secret_file": None}]}, "secret_env, this one has neither"),
        ({"access_tokens": [TOKEN | {"scope": {"ops": ["fly"]}}]}, "access_tokens[0]: ops has `f"),
        ({"access_tokens": [TOKEN | {"scope": {}}]}, "access_tokens[0]: Access token permissions"),
    ],
)
def test_a_refusal_names_the_place_in_the_file(value: object, says: str) -> None:
    """One sentence, and nothing of the file is used."""
    with pytest.raises(DeclarationError) as refusal:
        decoded(value)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_doubled_member_and_what_is_no_json_are_refused() -> None:
    """Two readers of such a file might see two different declarations."""
    for body, says in (
        (b'{"basins":[],"basins":[]}', "`basins` stands twice"),
        (b"", "the file is empty"),
        (b"basins: []", "the file is not as expected"),
        (b'{"x":' + b"[" * 100_000, "the file is nested too deeply"),
    ):
        with pytest.raises(DeclarationError, match=says):
            decode_declarations(body)


def test_a_file_is_bounded_in_bytes_and_in_declarations() -> None:
    """At the limit and one beyond it."""
    names = [{"name": f"stream-{n:05}"} for n in range(DECLARATIONS_MAX)]
    most = {"basins": [{"name": "my-basin-1", "streams": names[:-1]}]}
    assert decoded(most).count == DECLARATIONS_MAX
    with pytest.raises(DeclarationError, match=r"declares 10001 .*at most 10000"):
        decoded({"basins": [{"name": "my-basin-1", "streams": names}]})
    assert decode_declarations(b"{}".ljust(INIT_FILE_BYTES_MAX)) == Declarations()
    with pytest.raises(DeclarationError, match="1048577 bytes"):
        decode_declarations(b"{}".ljust(INIT_FILE_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90s", 90),
        ("7days", 604_800),
        ("1d", 86_400),
        (" 2h 30m ", 9_000),
        ("1hour12min5s", 4_325),
        ("2 weeks", 1_209_600),
        ("1M", 2_630_016),
        ("1y", 31_557_600),
        ("1000ms", 1),
        ("999ms 1000us", 1),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: int) -> None:
    """`M` is a month and `m` a minute."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", " ", "7", "d", "7 fortnights", "-1d", "1.5h", "1d,", "1ms"])
def test_what_is_no_whole_number_of_seconds_is_no_duration(text: str) -> None:
    """A number without a unit among them: nobody knows what it counts."""
    with pytest.raises(ValueError, match="a duration"):
        seconds_of(text)
