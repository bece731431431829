"""`svc-cluster profile`: the servers that a person asks, by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer

from svc_cluster.cli.data.printing import say_json, say_table
from svc_cluster.cli.data.profiles import (
    Profile,
    ProfileError,
    Profiles,
    given,
    is_profile_name,
    profiles_path,
    read_profiles,
    write_profiles,
)
from svc_cluster.cli.data.verb import EXIT_STATUS
from svc_cluster.cli.output_form import Output, OutputForm, Teller
from svc_cluster.cli.terminal import end_with
from svc_cluster.client.client_errors import ClientError
from svc_cluster.client.service_client import checked_url
from svc_cluster.settings_secrets import in_place_of_a_file, looks_like_secret, without_secrets

profile_app = typer.Typer(
    no_args_is_help=True, help="The servers that are asked, by name, in a file of this user."
)

Named = Annotated[str, typer.Argument(metavar="NAME", help="The profile.")]


@profile_app.command("list", epilog=EXIT_STATUS)
def list_profiles(
    output: Output = OutputForm.TABLE,
) -> None:
    """List the profiles; a star marks the default one."""
    profiles = _read()
    # a file that was written by hand may hold what `profile set` refuses
    shown = {
        name: Profile(**{key: without_secrets(text) for key, text in given(profile).items()})
        for name, profile in profiles.profiles.items()
    }
    if output is OutputForm.JSON:
        say_json(msgspec.to_builtins(Profiles(profiles.default, shown)))
        return
    rows = [
        (
            f"{name} *" if name == profiles.default else name,
            profile.url or "-",
            profile.token_file or "-",
            profile.ca_file or "-",
        )
        for name, profile in sorted(shown.items())
    ]
    say_table(("PROFILE", "URL", "TOKEN FILE", "CA FILE"), rows)


@profile_app.command("set", epilog=EXIT_STATUS)
def set_profile(
    name: Named,
    url: Annotated[str | None, typer.Option(help="The server.")] = None,
    basin_url: Annotated[
        str | None, typer.Option(help="Where basins are asked; {basin} stands for the name.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="Holds the access token.")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="The CA of its certificate.")] = None,
    default: Annotated[bool, typer.Option("--default", help="Use it from now on.")] = False,
    output: Output = OutputForm.TABLE,
) -> None:
    """Make a profile, or change what is named of one. The first one is the default."""
    if not is_profile_name(name):
        end_with(f"{name!r} is no name of a profile: use 1 to 64 printable characters", 2)
    # a name that is too long for one is no file either: Path.exists would raise it, name and all
    if token_file and looks_like_secret(str(token_file)) and not os.path.exists(token_file):
        end_with(in_place_of_a_file("--token-file"), 2)
    profiles = _read()
    try:
        changes = {
            "url": None if url is None else checked_url(url, "--url"),
            "basin_url": None if basin_url is None else checked_url(basin_url, "--basin-url"),
            "token_file": None if token_file is None else _place(token_file),
            "ca_file": None if ca_file is None else _place(ca_file),
        }
    except ClientError as cause:
        _end(cause, 2)
    before = given(profiles.profiles.get(name, Profile()))
    made = Profile(**(before | {key: text for key, text in changes.items() if text is not None}))
    chosen = name if default or profiles.default is None else profiles.default
    _write(Profiles(chosen, {**profiles.profiles, name: made}))
    told = f"profile {name} is set{' and the default' if chosen == name else ''}"
    Teller(output).end({"profile": name, "state": "set", "default": chosen == name}, [told])


@profile_app.command("use", epilog=EXIT_STATUS)
def use_profile(name: Named, output: Output = OutputForm.TABLE) -> None:
    """Make a profile the default one."""
    profiles = _read()
    _require(profiles, name)
    _write(Profiles(name, profiles.profiles))
    told = f"profile {name} is the default"
    Teller(output).end({"profile": name, "state": "set", "default": True}, [told])


@profile_app.command("remove", epilog=EXIT_STATUS)
def remove_profile(name: Named, output: Output = OutputForm.TABLE) -> None:
    """Remove a profile; the files that it names stay."""
    profiles = _read()
    _require(profiles, name)
    left = {key: profile for key, profile in profiles.profiles.items() if key != name}
    _write(Profiles(None if profiles.default == name else profiles.default, left))
    Teller(output).end({"profile": name, "state": "removed"}, [f"profile {name} is removed"])


def _place(path: Path) -> str:
    """A file as the profile names it: below the user's home by that."""
    whole, home = path.expanduser().absolute(), Path("~").expanduser()
    return f"~/{whole.relative_to(home)}" if whole.is_relative_to(home) else str(whole)


def _require(profiles: Profiles, name: str) -> None:
    if name not in profiles.profiles:
        there = ", ".join(sorted(profiles.profiles)) or "none"
        end_with(f"there is no profile {name!r}, there are: {there}", 1)


def _read() -> Profiles:
    try:
        return read_profiles(profiles_path())
    except ProfileError as cause:
        _end(cause, 1)


def _write(profiles: Profiles) -> None:
    try:
        write_profiles(profiles_path(), profiles)
    except ProfileError as cause:
        _end(cause, 1)


def _end(cause: Exception, status: int) -> NoReturn:
    end_with(str(cause), status)
