"""`svc-cluster debug bundle`: what a node says of itself, in one file for whoever helps.

Its parts are asked of the administrative service, which masks what leads to secrets, and of the
metrics page beside it; each has a bound, and what could not be had is named in the manifest.
"""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from svc_cluster.cli.admin.node_choice import Address, Authority, Certificate, DataDir, Key
from svc_cluster.cli.output_form import Output, OutputForm, Teller
from svc_cluster.cli.terminal import end_with
from svc_cluster.settings_secrets import without_secrets

if TYPE_CHECKING:
    from svc_cluster.cli.admin.admin_client import Target

debug_app = typer.Typer(no_args_is_help=True, help="What helps to find a fault.")

FORMAT: Final = 1
"""Version of the bundle's layout, in its manifest."""
LOG_BYTES_MAX: Final = 1024 * 1024
"""The end of each log that is taken."""
METRICS_BYTES_MAX: Final = 8 * 1024 * 1024
METRICS_SECONDS_MAX: Final = 10.0
_AUDIT: Final = "audit"
_OPERATIONS: Final = ("status", "members", "leaders", "configuration")


class Bundle:
    """The parts of a bundle, and what is missing."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self.missing: dict[str, str] = {}

    async def add_node(self, name: str, target: Target, metrics: str | None) -> None:
        """Ask one node for all that it tells. `metrics`: host:port of its metrics, None: as its
        configuration says."""
        from svc_cluster.cli.admin.admin_client import AdminError, configuration, connected, plain

        settings: dict[str, object] = {}
        try:
            async with connected(target) as client:
                for operation in _OPERATIONS:
                    part = f"{name}/{operation}.json"
                    try:
                        answer = await getattr(client, operation)()
                    except AdminError as cause:
                        self.missing[part] = str(cause)
                        continue
                    content = plain(answer)
                    if operation == "configuration":
                        content = settings = dict(configuration(answer))
                    self.parts[part] = msgspec.json.format(msgspec.json.encode(content))
        except AdminError as cause:
            self.missing[name] = str(cause)
        said = metrics or settings.get("admin_address")
        if isinstance(said, str) and said:
            host, _, port = said.rpartition(":")
            here = target.address.rpartition(":")[0] if host in ("0.0.0.0", "[::]") else host
            await self._add_metrics(f"{name}/metrics.txt", f"http://{here}:{port}")

    async def _add_metrics(self, part: str, url: str) -> None:
        from svc_cluster.http.client import ConnectionLostError, HttpClient

        async with HttpClient(url) as http:
            try:
                answer = await http.request("GET", "/metrics", timeout_s=METRICS_SECONDS_MAX)
            except ConnectionLostError as cause:
                self.missing[part] = f"{url}: {cause}"
                return
        if answer.status != 200:
            self.missing[part] = f"{url}: {answer.status}"
        else:
            self.parts[part] = answer.body[:METRICS_BYTES_MAX]

    def add_logs(self, directory: Path) -> None:
        """Take the ends of the logs that a `svc-cluster local` keeps beside its data."""
        for path in sorted(directory.glob("*.log")):
            if path.name.startswith(_AUDIT):  # who did what is not for whoever helps
                continue
            try:
                with path.open("rb") as file:
                    begin = max(0, path.stat().st_size - LOG_BYTES_MAX)
                    file.seek(begin)
                    text = file.read(LOG_BYTES_MAX).decode(errors="replace")
            except OSError as cause:
                self.missing[f"logs/{path.name}"] = str(cause.strerror)
                continue
            if begin:  # of a secret that is cut nobody sees what it is
                text = text.partition("\n")[2]
            # a line of another release, or of a fault, may say what none of ours should
            masked = "".join(without_secrets(line) for line in text.splitlines(keepends=True))
            self.parts[f"logs/{path.name}"] = masked.encode()

    def write(self, out: Path) -> None:
        """Whole or not at all, for its owner only. Raises OSError."""
        manifest = {
            "format": FORMAT,
            "release": version("svc-cluster"),
            "parts": {name: len(data) for name, data in sorted(self.parts.items())},
            "missing": self.missing,
        }
        parts = {"manifest.json": msgspec.json.format(msgspec.json.encode(manifest)), **self.parts}
        temporary = out.with_name(f"{out.name}.{os.getpid()}.new")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
            for name, data in parts.items():
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), 0o600
                tar.addfile(member, io.BytesIO(data))
        temporary.replace(out)


@debug_app.command("bundle")
def bundle(
    out: Annotated[Path, typer.Option("--out", help="The file, a .tar.gz.")],
    address: Address = None,
    data_dir: DataDir = None,
    node: Annotated[
        int | None,
        typer.Option(envvar="SVC_CLUSTER_NODE_ID", min=1, help="The node's id; else, of a local "
                     "cluster, all of them."),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="host:port of the node's metrics, where it is another.")
    ] = None,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    tls_ca: Authority = None,
    output: Output = OutputForm.TABLE,
) -> None:  # fmt: skip
    """Write what one node, or all of a `svc-cluster local`, say of themselves into one file.

    It has status, members, groups, metrics, configuration without what leads to secrets, and the
    logs of a local cluster but the audit log. Status 1: some of it could not be had; the manifest
    says what."""
    from svc_cluster.cli.admin.admin_client import AdminError, given_target, local_target
    from svc_cluster.cli.cluster_file import read_cluster_file

    made = Bundle()

    async def ask(targets: list[tuple[str, Target, str | None]]) -> None:
        for name, target, where in targets:
            await made.add_node(name, target, where)

    try:
        targets: list[tuple[str, Target, str | None]] = []
        if data_dir is not None:
            local_target(data_dir, node)  # says it where there is none
            for row in read_cluster_file(data_dir)["nodes"]:
                number = int(row["id"])
                if node in (None, number):
                    where = f"127.0.0.1:{row['admin_port']}"
                    targets.append((f"node-{number}", local_target(data_dir, number), where))
            made.add_logs(data_dir)
        elif address is not None:
            target = given_target(address, node, (tls_cert, tls_key, tls_ca))
            targets.append((f"node-{node or address.replace(':', '-')}", target, metrics))
        else:
            end_with("which node: use --address HOST:PORT, or --data-dir", 2)
        asyncio.run(ask(targets))
        made.write(out)
    except AdminError as cause:
        end_with(str(cause), 2)
    except OSError as cause:
        end_with(f"{out} cannot be written: {cause.strerror}", 1)
    Teller(output).end(
        {"file": str(out), "parts": sorted(made.parts), "missing": made.missing},
        [
            f"{out}: {len(made.parts)} parts",
            *(f"missing: {name}: {why}" for name, why in made.missing.items()),
        ],
    )
    if made.missing:
        raise SystemExit(1)
