"""The commands. Heavy imports happen inside them, so that `--help` is quick."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from svc_cluster.base.tasks import start_task
from svc_cluster.cli.admin.admin_app import app as admin_app
from svc_cluster.cli.admin.debug_bundle import debug_app
from svc_cluster.cli.admin.wal_inspect import wal_app
from svc_cluster.cli.backup.backup_app import app as backup_app
from svc_cluster.cli.backup.recover_command import recover
from svc_cluster.cli.completion import add_completion
from svc_cluster.cli.config import app as config_app
from svc_cluster.cli.data.data_app import add_data_commands
from svc_cluster.cli.local.command import LocalCluster
from svc_cluster.cli.local.introduction import END
from svc_cluster.cli.local.local_directory import LocalError, overrides
from svc_cluster.cli.processes.process import fail, run, watch_supervisor
from svc_cluster.cli.processes.process_app import InitFile, add_process_commands
from svc_cluster.cli.processes.start_checks import EMBEDDED_FILES_MIN
from svc_cluster.cli.terminal import say, say_surely
from svc_cluster.cli.top import add_top
from svc_cluster.lab import bench
from svc_cluster.lab.demo import demo
from svc_cluster.settings_checks import check_address, check_log, is_loopback
from svc_cluster.settings_errors import SettingsError
from svc_cluster.settings_sources import with_environment

RUN_SECONDS: Final = "RUN_SECONDS"
"""Environment variable: `local` ends by itself, with status 0, after this many seconds."""

_MakeCluster = Callable[[], LocalCluster]
"""Called once the event loop runs."""

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _say_version(asked: bool) -> None:
    if asked:
        from svc_cluster.cli.processes.own_version import own_version

        say_surely(own_version())
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_say_version, help="Say which program this is."
        ),
    ] = False,
) -> None:
    """Durable, ordered streams of records over HTTP, replicated by Raft."""


app.add_typer(bench.app, name="bench")
admin_app.command("recover")(recover)
app.add_typer(admin_app, name="admin")
app.add_typer(backup_app, name="backup")
app.add_typer(config_app, name="config")
app.command()(demo)
app.add_typer(wal_app, name="wal")
app.add_typer(debug_app, name="debug")
add_process_commands(app)
add_data_commands(app)
add_completion(app)
add_top(app)


@app.command()
def local(
    nodes: Annotated[int, typer.Option(help="Replica nodes: 1 (embedded), 3 or 5.")] = 3,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The gateway's port; 0 for a free one.")
    ] = 8080,
    data_dir: Annotated[Path, typer.Option(help="Kept between runs.")] = Path("data"),
    restart: Annotated[
        bool, typer.Option(help="Start a process again when it dies (--no-restart: do not).")
    ] = True,
    demo: Annotated[bool, typer.Option(help="Show an append, a read and a follow.")] = False,
    host: Annotated[
        str, typer.Option(help="Where the gateway listens; 0.0.0.0 for every address.")
    ] = "127.0.0.1",
    tls: Annotated[
        bool, typer.Option("--tls", help="TLS for clients and between nodes; own certificates.")
    ] = False,
    auth: Annotated[
        bool | None,
        typer.Option(
            "--auth/--no-auth",
            help="Requests need an access token; shows the root token. Default: as soon as --host "
            "is not on loopback.",
        ),
    ] = None,
    root_token_file: Annotated[
        Path | None,
        typer.Option(help="Take the first root token from this file, or write it there."),
    ] = None,
    init_file: InitFile = None,
) -> None:
    """Run a whole cluster in one place until Ctrl-C, with the nodes on loopback. The gateway is
    there too unless --host says otherwise."""
    try:
        check_address("--host", f"{host}:0")
    except SettingsError as cause:
        fail(str(cause), 2)
    if demo and (auth or (auth is None and not is_loopback(f"{host}:0"))):
        fail("--demo sends no access token: use it without --auth", 2)
    if nodes not in (1, 3, 5):
        fail(f"--nodes is {nodes}: use 1, 3 or 5", 2)
    limit = _run_seconds()
    make = partial(
        LocalCluster,
        data_dir,
        nodes,
        port,
        restart=restart,
        host=host,
        tls=tls,
        auth=auth,
        root_token_file=root_token_file,
        init_file=init_file,
    )
    try:
        _check_init_file(init_file)
        if nodes == 1:
            ok = _run_embedded(make, limit, demo=demo)
        else:
            ok = asyncio.run(_supervise(make, limit, demo=demo))
        if not ok:
            raise typer.Exit(1)
    except LocalError as cause:
        fail(str(cause), cause.exit_status)


def _check_init_file(init_file: Path | None) -> None:
    """Before any process is started. Raises LocalError."""
    if init_file is None:
        return
    from svc_cluster.cli.processes.init_file import read_init_file

    try:
        read_init_file(init_file)
    except SettingsError as cause:
        raise LocalError(str(cause), cause.exit_status) from cause


def _run_seconds() -> float | None:
    """How long to run; None: until Ctrl-C."""
    text = os.environ.get(RUN_SECONDS)
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        fail(f"{RUN_SECONDS} is {text!r}: use a number of seconds, or leave it out", 2)
    return seconds


async def _supervise(make: _MakeCluster, limit: float | None, *, demo: bool) -> bool:
    from svc_cluster.lab.run_demo import run_demo

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    watch_supervisor(loop, stop)
    cluster = make()
    cluster.prepare()
    ok = True
    try:
        await cluster.start()
        waiting = start_task(cluster.wait_ready(), "wait ready")
        stopping = start_task(stop.wait(), "wait for the end")
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
            await cluster.wait_token()
            say(cluster.introduction())
            if demo:
                ok = await run_demo(cluster.url, tls=cluster.trust)
            say(END)
            await asyncio.wait({stopping}, timeout=limit)
        waiting.cancel()
        stopping.cancel()
    finally:
        await cluster.stop()
    return ok


def _run_embedded(make: _MakeCluster, limit: float | None, *, demo: bool) -> bool:
    from svc_cluster.cli.local.embedded import EmbeddedNode, embedded_settings
    from svc_cluster.lab.run_demo import run_demo

    ok = True

    async def main(stop: asyncio.Event) -> None:
        nonlocal ok
        cluster = make()
        facts, secret = cluster.files.identity()
        rpc, admin, admin_rpc = cluster.take_ports(3)
        node_settings, gateway_settings = embedded_settings(
            cluster.directory,
            facts["cluster_id"],
            secret,
            [rpc, admin, cluster.port],
            overrides(),
        )
        gateway_settings = msgspec.structs.replace(
            gateway_settings,
            host=cluster.host,
            **cluster.public_settings(),
            **cluster.gateway_settings(),
        )
        node_settings = msgspec.structs.replace(
            node_settings, admin_rpc_address=f"127.0.0.1:{admin_rpc}"
        )
        node_settings = with_environment(node_settings, os.environ)
        gateway_settings = with_environment(gateway_settings, os.environ)
        if gateway_settings.processes > 1:
            raise LocalError(
                f"processes is {gateway_settings.processes}: node and gateway are one process with "
                "--nodes 1, leave it out or use --nodes 3"
            )
        embedded = EmbeddedNode(node_settings, gateway_settings)
        await embedded.start()
        row = {
            "id": 1,
            "pid": os.getpid(),
            "rpc_port": rpc,
            "admin_port": admin,
            "admin_rpc_port": admin_rpc,
            "admin_rpc_tls": False,
            "data_dir": node_settings.data_dir,
        }
        cluster.write_cluster_file(row, {"port": cluster.port, "pid": os.getpid()})
        await cluster.wait_urls([("node-1", f"http://127.0.0.1:{admin}"), ("gateway", cluster.url)])
        await cluster.wait_token()
        say(cluster.introduction())
        if demo:
            ok = await run_demo(cluster.url, tls=cluster.trust)
        say(END)
        try:
            async with asyncio.timeout(limit):
                await stop.wait()
        except TimeoutError:
            pass
        await embedded.stop()

    level = os.environ.get("SVC_CLUSTER_LOG_LEVEL", "warning")
    try:
        check_log(level, "text")
    except SettingsError as cause:
        fail(str(cause))
    run(main, level, "text", files_min=EMBEDDED_FILES_MIN, passed_on=(LocalError,))
    return ok
