"""Which server a command asks, and as whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc_cluster.cli.data.profiles import (
    Profile,
    ProfileError,
    Profiles,
    profiles_path,
    read_profiles,
    write_profiles,
)
from svc_cluster.cli.data.server_choice import ServerOptions, chosen_server
from svc_cluster.cli.data.stream_names import StreamName, basin_and_prefix, stream_name
from svc_cluster.cli.data.verb import UsageFault
from svc_cluster.client.client_errors import ClientError


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A user with two profiles, the first of them the default, and a token for each."""
    environment = {"HOME": str(tmp_path)}
    path = profiles_path(environment)
    made = {
        "one": Profile("http://one", "http://{basin}.one", "one.token", None),
        "two": Profile("https://two:9", None, None, None),
    }
    write_profiles(path, Profiles("one", made))
    (path.parent / "one.token").write_text(" secret-one\n")
    (tmp_path / "given").write_text("secret-given")
    return environment


def test_options_go_before_the_environment_and_that_before_the_default_profile(
    home: dict[str, str], tmp_path: Path
) -> None:
    """Each with the basins' address and the token that belong to it."""

    def chosen(
        more: dict[str, str] | None = None,
        profile: str | None = None,
        url: str | None = None,
        *,
        token: bool = False,
    ) -> tuple[str, str | None, str | None]:
        options = ServerOptions(
            profile=profile, url=url, token_file=tmp_path / "given" if token else None
        )
        found = chosen_server(options, home | (more or {}))
        return found.url, found.basin_url, found.token

    variables = {
        "S2_ACCOUNT_ENDPOINT": "http://three",
        "S2_BASIN_ENDPOINT": "http://{basin}.three",
        "S2_ACCESS_TOKEN": "secret-env",
    }
    assert chosen() == ("http://one", "http://{basin}.one", "secret-one")
    assert chosen(variables) == ("http://three", "http://{basin}.three", "secret-env")
    assert chosen(variables, profile="one") == ("http://one", "http://{basin}.one", "secret-one")
    assert chosen(variables, profile="two") == ("https://two:9", None, "secret-env")
    assert chosen(variables, url="http://four") == ("http://four", None, "secret-env")
    assert chosen(variables, token=True)[2] == "secret-given"
    # the default profile's token is for its own server alone
    assert chosen(url="http://four") == ("http://four", None, None)
    assert chosen({"S2_ACCOUNT_ENDPOINT": "http://three"})[2] is None
    assert chosen_server(ServerOptions(), {"HOME": "/nowhere"}).url == "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("127.0.0.1:1/", "http://127.0.0.1:1"),
        ("[::1]:1", "http://[::1]:1"),
        ("streams.example.org", "https://streams.example.org"),
        ("https://x:2/v1", "https://x:2"),
    ],
)
def test_an_address_without_a_scheme_is_plain_on_this_machine_only(text: str, url: str) -> None:
    """So that a token does not go out in the clear because somebody left five letters out."""
    found = chosen_server(ServerOptions(url=text), {"HOME": "/nowhere"})
    assert found.url == url


@pytest.mark.parametrize("text", ["ftp://x", "http://", "http://x/y", "http://x:port", "a b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """By name of the option, before anything is asked."""
    with pytest.raises(ClientError, match="--url is"):
        chosen_server(ServerOptions(url=text), {"HOME": "/nowhere"})


def test_profiles_are_kept_by_the_byte_for_their_owner_only(tmp_path: Path) -> None:
    """Also names and texts that TOML would understand otherwise; what is unknown is refused."""
    path = tmp_path / "a" / "config.toml"
    made = Profiles('x "y', {'x "y': Profile(url='a"b\\c\n'), "k.e[y]": Profile(ca_file="ü\x7f")})
    write_profiles(path, made)
    assert read_profiles(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]
    path.write_text('[profiles.a]\ntoken = "secret"\n')
    with pytest.raises(ProfileError, match="unknown field `token`"):
        read_profiles(path)
    assert read_profiles(tmp_path / "absent") == Profiles()


def test_streams_are_named_by_basin_and_the_rest() -> None:
    """All behind the first slash is the stream's name, dots and slashes too."""
    assert stream_name("s2://first-basin/a/b") == StreamName("first-basin", "a/b")
    assert stream_name("first-basin//x") == StreamName("first-basin", "/x")
    assert basin_and_prefix("first-basin/a/") == ("first-basin", "a/")
    assert basin_and_prefix("s2://first-basin") == ("first-basin", "")
    for wrong in ("first-basin", "first-basin/", "/x", "BAD/x", "first-basin/..", "x/y"):
        with pytest.raises(UsageFault):
            stream_name(wrong)
