"""`svc-cluster copy`: basins and streams from one server to another."""

from __future__ import annotations

import os
import random
import secrets
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.data.printing import plain, say_json
from svc_cluster.cli.data.server_choice import ServerOptions, chosen_server
from svc_cluster.cli.data.stream_key_file import read_key
from svc_cluster.cli.data.stream_names import StreamName, basin_name, stream_name
from svc_cluster.cli.data.verb import EXIT_STATUS, UsageFault, perform
from svc_cluster.cli.output_form import Output, OutputForm
from svc_cluster.cli.terminal import last_words
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.client.client_errors import AnswerRefusedError, ClientError
from svc_cluster.client.copy_end import CopyEnd
from svc_cluster.client.definite_append import PATIENCE_SECONDS, RetryPatience
from svc_cluster.client.service_client import ServerAddress, ServiceClient, shaped
from svc_cluster.client.stream_copy import CopiedStream, StreamCopy

_PLACES: Final = ("HOME", "XDG_CONFIG_HOME")
_SCHEMES: Final = ("http://", "https://")

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[BASIN[/STREAM]]...", help="What is copied; else everything."),
]
TokenFile = Annotated[Path | None, typer.Option(help="Holds the access token for it.")]
CaFile = Annotated[Path | None, typer.Option(help="The CA of its certificate.")]


KeyFile = Annotated[
    Path | None, typer.Option(help="Holds the key of its encrypted streams, base64 of 32 bytes.")
]


class _ListedName(msgspec.Struct):
    name: str
    deleted_at: str | None = None
    cipher: str | None = None


class _BasinCipher(msgspec.Struct):
    stream_cipher: str | None = None


@dataclass(slots=True)
class _Copying:
    """Both servers, and how the copy is told."""

    source: ServiceClient
    target: ServiceClient
    is_json: bool
    patience_s: float
    into: str | None

    async def run(self, names: list[str]) -> None:
        failed = 0
        async for name in self._streams(names):
            target = StreamName(self.into or name.basin, name.stream)
            try:
                await self._ensure_basin(name.basin, target.basin)
                await self._refuse_uncovering(name, target)
                copied = await StreamCopy(
                    self._end(self.source, name),
                    self._end(self.target, target),
                    lambda: secrets.token_hex(16),
                    partial(self._progress, name),
                    self._tell_left,
                ).run()
            except ClientError as cause:
                failed += 1
                self._clear()
                self._tell_failure(name, cause)
                continue
            self._clear()
            self._tell(name, target, copied)
        if failed:
            raise ClientError(f"{failed} streams were not copied: ask for the same again to go on")

    async def _streams(self, names: list[str]) -> AsyncIterator[StreamName]:
        """Yield all that is named, without what is being deleted."""
        for text in names or [each async for each in self._names("basins")]:
            if "/" in text.removeprefix("s2://"):
                yield stream_name(text)
                continue
            basin = basin_name(text)
            async for stream in self._names("streams", basin):
                yield StreamName(basin, stream)

    async def _names(self, noun: str, basin: str | None = None) -> AsyncIterator[str]:
        async for each in self.source.pages(noun, basin=basin):
            found = shaped(each, _ListedName)
            if found.deleted_at is None:
                yield found.name

    async def _ensure_basin(self, source: str, target: str) -> None:
        """Made with the configuration of the source's where it is missing, else left alone."""
        try:
            await self.target.call("GET", f"/v1/basins/{target}")
        except AnswerRefusedError as refused:
            if refused.code != "basin_not_found":
                raise
            config = (await self.source.call("GET", f"/v1/basins/{source}")).body
            body = b'{"config":' + config + b"}"
            await self.target.call("PUT", f"/v1/basins/{target}", body=body)

    async def _refuse_uncovering(self, name: StreamName, target: StreamName) -> None:
        """Raises ClientError for a stream whose records are encrypted at the source alone.
        Everybody could read the copy."""
        try:
            stream = await _listed(self.source, name)
            is_encrypted = stream is not None and stream.cipher is not None
            why = "its records are encrypted"
        except AnswerRefusedError as refused:
            if refused.status != 403:
                raise
            # without its key no record of an encrypted stream can be read
            is_encrypted = self.source.key is not None
            why = (
                "its records are taken for encrypted (there is --from-key-file, and its token may "
                "not list streams)"
            )
        if not is_encrypted:
            return
        if await self._is_there(target, why):
            return
        answer = await self.target.call("GET", f"/v1/basins/{target.basin}")
        if shaped(answer.body, _BasinCipher).stream_cipher is None:
            raise ClientError(
                f"{why}, and those in {target.basin} of the destination are not: give that a "
                "cipher (`svc-cluster basin update --cipher`), or name another with --basin"
            )

    async def _is_there(self, target: StreamName, why: str) -> bool:
        """Return whether the destination has the stream, encrypted. Raises ClientError where it is
        there and is not, or does not say so: what its basin has now changes nothing of that."""
        try:
            there = await _listed(self.target, target)
        except AnswerRefusedError as refused:
            if refused.status != 403:
                raise
            if not await self._answers(target):
                return False
            raise ClientError(
                f"{why}, and whether those in {target} of the destination are cannot be seen: use "
                "a token there that may list streams, or copy to another stream"
            ) from refused
        if there is None or there.deleted_at is not None:
            return False
        if there.cipher is None:
            raise ClientError(
                f"{why}, and those in {target} of the destination are not, whatever cipher its "
                "basin has now: delete that stream, or copy to another"
            )
        return True

    async def _answers(self, target: StreamName) -> bool:
        try:
            await self._end(self.target, target).config()
        except AnswerRefusedError as refused:
            if refused.status != 404:
                raise
            return False
        return True

    def _end(self, client: ServiceClient, name: StreamName) -> CopyEnd:
        patience = RetryPatience(SystemClock(), random.Random(), self.patience_s)
        return CopyEnd(client, name.basin, name.stream, patience)

    def _progress(self, name: StreamName, what: str, place: int, end: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{plain(str(name))}: {what} {place} of {end}")
            sys.stderr.flush()

    def _clear(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _tell_left(self, text: str) -> None:
        self._clear()
        last_words(f"svc-cluster: {text}\n")

    def _tell(self, name: StreamName, target: StreamName, copied: CopiedStream) -> None:
        if self.is_json:
            say_json(
                {
                    "stream": str(name),
                    "to": str(target),
                    "copied": copied.copied,
                    "resumed_at": copied.resumed_at,
                    "compared": copied.compared,
                    "source_tail": copied.tail,
                    "position_shift": copied.shift,
                }
            )
            return
        told = f"{plain(str(name))}: {copied.copied} records copied, {copied.compared} compared"
        if copied.resumed_at:
            told += f", {copied.resumed_at} were there"
        if copied.shift:
            told += (
                f"; positions are not kept, the source's record {copied.shift} is record 0 in the "
                "copy"
            )
        say(told)

    def _tell_failure(self, name: StreamName, cause: ClientError) -> None:
        if self.is_json:
            say_json({"stream": str(name), "failed": str(cause)})
        else:
            say(f"{plain(str(name))}: not copied: {cause}")


async def _listed(client: ServiceClient, name: StreamName) -> _ListedName | None:
    """Return what the list of streams says of one; None where it is not there."""
    pages = client.pages("streams", basin=name.basin, prefix=name.stream, limit=1)
    found = [shaped(each, _ListedName) async for each in pages]
    return next((each for each in found if each.name == name.stream), None)


def copy(
    names: Names = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="A server's address, or a profile.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="A server's address, or a profile.")
    ] = None,
    from_token_file: TokenFile = None,
    to_token_file: TokenFile = None,
    from_ca_file: CaFile = None,
    to_ca_file: CaFile = None,
    from_key_file: KeyFile = None,
    to_key_file: KeyFile = None,
    into: Annotated[
        str | None, typer.Option("--basin", help="The basin at the destination; else the same.")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0, max=43_200, help="Seconds without an answer.")
    ] = PATIENCE_SECONDS,
    output: Output = OutputForm.TABLE,
) -> None:
    """Copy streams between servers of the interface, S2's own among them. Records keep their
    headers, timestamps and positions, streams their configurations. It can be interrupted: asked
    for again, it goes on where it was. At the end both are read and compared. A source without its
    first records is numbered from 0 in the copy, which is said. Records of encrypted streams are
    opened with the one key and sealed with the other; a copy that would not be encrypted is
    refused. Access tokens are not copied."""

    async def main() -> None:
        source, target = _options("--from", from_), _options("--to", to)
        first_key, second_key = (
            None if path is None else read_key(path) for path in (from_key_file, to_key_file)
        )
        places = (
            _server(source, from_token_file, from_ca_file),
            _server(target, to_token_file, to_ca_file),
        )
        async with (
            ServiceClient(places[0], first_key, "--from-key-file") as first,
            ServiceClient(places[1], second_key, "--to-key-file") as second,
        ):
            if (first.address.url, into) == (second.address.url, None):
                raise UsageFault("--from and --to are the same server: name a --basin there")
            wanted = None if into is None else basin_name(into)
            is_json = output is OutputForm.JSON
            await _Copying(first, second, is_json, patience, wanted).run(names or [])

    perform(main)


def _options(option: str, text: str | None) -> ServerOptions:
    if text is None:
        raise UsageFault(f"{option} is missing: name a server's address or a profile")
    if text.startswith(_SCHEMES) or ":" in text or "." in text:
        return ServerOptions(url=text)
    return ServerOptions(profile=text)


def _server(options: ServerOptions, token_file: Path | None, ca_file: Path | None) -> ServerAddress:
    """No server and no token comes from the environment: it could mean either of the two."""
    return chosen_server(
        ServerOptions(
            profile=options.profile, url=options.url, token_file=token_file, ca_file=ca_file
        ),
        {key: os.environ[key] for key in _PLACES if key in os.environ},
    )


def add_copy(app: typer.Typer) -> None:
    """Add it to the command."""
    app.command("copy", epilog=EXIT_STATUS)(copy)
