"""This is what `svc-cluster local` says once it is ready. It is a block that works as it stands
when it is pasted into a shell, with the access token where one is asked for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PASTE: Final = "Paste this into a shell:"
FOLLOW: Final = "Then, to follow the stream until Ctrl-C:"
S2: Final = "And with S2's command (cargo install --locked s2-cli), in the same shell:"
END: Final = "Ctrl-C ends it; the data stays."


@dataclass(frozen=True, slots=True)
class Access:
    """How clients show who they are. `secret`: of the root token, where this start made it; `file`:
    where the root token is, instead."""

    asked: bool = False
    secret: str | None = None
    file: Path | None = None

    def notice(self) -> str:
        """One line of prose."""
        if not self.asked:
            return "not asked for (--auth: they are)"
        if self.file is not None:
            return f"asked for; the root token is in {self.file}"
        if self.secret is not None:
            return "asked for; the root token below is shown this once"
        return "asked for; the root token was shown at the first start with --auth"

    def export(self, data_dir: Path) -> str:
        """The line that puts the token into the environment, or says where to get one."""
        if not self.asked:
            return "export S2_ACCESS_TOKEN=ignored"
        if self.file is not None:
            return f'export S2_ACCESS_TOKEN="$(cat {shlex.quote(str(self.file))})"'
        if self.secret is not None:
            return f"export S2_ACCESS_TOKEN={self.secret}"
        another = f"svc-cluster admin root-token {shlex.quote(str(data_dir))}"
        return (
            'export S2_ACCESS_TOKEN="${S2_ACCESS_TOKEN:?set it to the root token; '
            f'{another}   makes another}}"'
        )


def introduction(
    directory: Path, url: str, nodes: int, access: Access, trust: Path | None = None
) -> str:
    """`trust`: the CA of the gateway's certificate, where it has one."""
    exports = [
        f"export S2_ACCOUNT_ENDPOINT={url} S2_BASIN_ENDPOINT={url}",
        access.export(directory / "node-1"),
    ]
    if trust is not None:
        exports.append(f"export S2_SSL_NO_VERIFY=true CURL_CA_BUNDLE={shlex.quote(str(trust))}")
    token = ' -H "authorization: Bearer $S2_ACCESS_TOKEN"' if access.asked else ""
    curl = f"curl -sS -w '\\n'{token} -H 'svc-basin: my-basin' -H 'svc-format: utf8'"
    json = "-H 'content-type: application/json'"
    records = f"{url}/v1/streams/my-stream/records"
    lines = [
        "",
        f"svc-cluster is running: {nodes} node{'s' if nodes != 1 else ''} and a gateway",
        f"  address         {url}",
        f"  data directory  {directory}",
        f"  access tokens   {access.notice()}",
        "",
        PASTE,
        "",
        *exports,
        f"curl -sS -w '\\n'{token} {json} {url}/v1/basins -d '{{\"basin\":\"my-basin\"}}'",
        f'{curl} {json} {url}/v1/streams -d \'{{"stream":"my-stream"}}\'',
        f'{curl} {json} {records} -d \'{{"records":[{{"body":"hello"}}]}}\'',
        f"{curl} '{records}?seq_num=0&count=10'",
        "",
        FOLLOW,
        "",
        f"{curl} -N -H 'accept: text/event-stream' '{records}?seq_num=0'",
        "",
        S2,
        "",
        "echo 'hello from the command' | s2 append s2://my-basin/my-stream",
        "s2 read s2://my-basin/my-stream --seq-num 0 --count 1",
        "",
    ]
    return "\n".join(lines)
