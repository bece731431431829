"""Debian's nginx with the configuration of `deploy/nginx`, before gateways on this machine."""

from __future__ import annotations

import contextlib
import functools
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.cli.local.ports import HeldPorts
from tests.contract.scripted_app import DEADLINE
from tests.service_process import ServiceProcess

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "deploy/nginx/svc-cluster.conf"
BUILD = ROOT / "build/nginx"
FETCH_SECONDS = 240

MARK = "    proxy_set_header x-passed $request_id;"
MAIN = """
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    include {directory}/site.conf;
}}
"""


@functools.cache
def nginx() -> str:
    """Where it is, its package fetched where it is not installed."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is not None:
        return found
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("nginx is not installed and there is no apt-get to fetch its package by")
    command = [ROOT / "deploy/nginx/fetch.sh", BUILD]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"Debian's nginx package cannot be fetched: {done.stderr[-200:]}")
    return str(BUILD / "nginx")


class Proxy:
    """One nginx in the foreground; `port` speaks HTTP/1.1, `h2_port` HTTP/2."""

    def __init__(self, directory: Path, *gateway_ports: int) -> None:
        self._held = HeldPorts(3)
        self.port, self.h2_port, own_port = self._held.numbers
        assert CONFIGURATION.read_text().count("8082") == 5, "one stands in the comment"
        site = CONFIGURATION.read_text().replace("8082", str(own_port))
        server = "server 127.0.0.1:{} max_fails=0;"
        gateways = " ".join(server.format(port) for port in gateway_ports)
        for ours, theirs in (
            (server.format(8080), gateways),
            ("listen 80;", f"listen 127.0.0.1:{self.port};"),
            ("listen 8081 http2;", f"listen 127.0.0.1:{self.h2_port} http2;"),
            ("access_log /var/log/nginx/svc-cluster.log", f"access_log {directory}/site.log"),
            # Marks what nginx takes for a request.
            ('proxy_set_header Connection "";', f'proxy_set_header Connection "";\n{MARK}'),
        ):
            assert site.count(f"    {ours}") == 1, ours
            site = site.replace(ours, theirs)
        directory.mkdir(exist_ok=True)
        (directory / "site.conf").write_text(site)
        (directory / "nginx.conf").write_text(MAIN.format(directory=directory))
        command = [nginx(), "-p", str(directory), "-c", str(directory / "nginx.conf")]
        self.log = directory / "output"
        self._process = ServiceProcess(command, self.log)
        self._process.start()
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + DEADLINE
        while True:
            assert self._process.is_running, self._process.said()
            with socket.socket() as sock:
                if sock.connect_ex(("127.0.0.1", self.h2_port)) == 0:
                    return
            assert time.monotonic() < end, "nginx does not listen"
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.stop()


@contextlib.contextmanager
def proxy(directory: Path, *gateway_ports: int) -> Iterator[Proxy]:
    running = Proxy(directory, *gateway_ports)
    try:
        yield running
    finally:
        running.stop()
