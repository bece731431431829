"""`svc-cluster profile`: addresses and files are named in profiles, and no secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc_cluster.cli.data.profiles import Profile, Profiles, profiles_path, write_profiles
from svc_cluster.cli.data.server_choice import ServerOptions, chosen_server
from svc_cluster.cli.main import app
from svc_cluster.client.client_errors import ClientError

TOKEN = "svct_" + "s" * 51


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The profiles' file of a user who has none."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return profiles_path()


def ended(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        app(["profile", *arguments], standalone_mode=False)
    assert isinstance(end.value.code, int)
    return end.value.code


@pytest.mark.parametrize("url", ["http://user:pw@host", "user:pw@host", "https://pw@host:1/v1"])
@pytest.mark.parametrize("option", ["--url", "--basin-url"])
def test_a_profile_takes_no_user_in_an_address(
    file: Path, capsys: pytest.CaptureFixture[str], option: str, url: str
) -> None:
    """It would be shown, and sent to nobody."""
    assert ended("set", "p", option, url) == 2
    assert capsys.readouterr().err == (
        f"svc-cluster: {option} has a user's name in it: take out what stands up to the @, nothing "
        "of it is ever sent; an access token stands in a file, which --token-file names\n"
    )
    assert not file.exists()


def test_a_token_is_not_taken_for_the_name_of_its_file(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither by a profile nor by a command that asks; it is not repeated."""
    assert ended("set", "p", "--token-file", TOKEN) == 2
    out, err = capsys.readouterr()
    assert err.startswith("svc-cluster: --token-file looks like the secret itself, which is not")
    assert TOKEN not in out + err
    assert ended("set", "p", "--token-file", TOKEN * 6) == 2, "longer than any name of a file"
    assert TOKEN not in str(capsys.readouterr())
    assert not file.exists()
    with pytest.raises(ClientError) as refused:
        chosen_server(ServerOptions(token_file=Path(TOKEN)), {})
    assert str(refused.value).startswith("--token-file looks like the secret itself")
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("output", ["table", "json"])
def test_profiles_that_were_written_by_hand_are_shown_without_passwords(
    file: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    """The file may be older than the rule; what asks by such a profile is refused."""
    made = {
        "p": Profile(url="http://user:pw@host:1", ca_file=TOKEN),
        "q": Profile(url="http://h"),
    }
    write_profiles(file, Profiles("p", made))
    app(["profile", "list", "-o", output], standalone_mode=False)
    out = capsys.readouterr().out
    assert "http://[masked]@host:1" in out
    assert "http://h" in out
    assert "pw" not in out
    assert TOKEN not in out
    with pytest.raises(ClientError, match=r"^the profile's url has a user's name in it"):
        chosen_server(ServerOptions(), {"HOME": str(file.parents[2])})
