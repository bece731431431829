"""One process that a test starts, with all that it says in a file. A whole cluster is an
`OwnCluster`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.log_lines import whole_text

END_S: Final = 40.0
"""Longer than any process takes that ends in order; then it is ended by force."""

TOLD_MAX: Final = 2000
"""Characters of the log that a failure shows."""

SERVICE: Final = (sys.executable, "-m", "svc_cluster")


class ServiceProcess:
    """One program. It may be started again after it has ended; its output is appended to `log`.

    Nothing is started by the constructor. As a context it is started, and stopped in order: one
    that has to be ended by force then, or has another status than 0, fails the test.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        own_session: bool = False,
        end_s: float = END_S,
    ) -> None:
        """`environment` is added to this process's own. `own_session`: a Ctrl-C is not for it.
        After `end_s` it is ended by force."""
        self.log = log
        self._command = list(command)
        self._environment = dict(environment or {})
        self._directory = directory
        self._own_session = own_session
        self._end_s = end_s
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert not self.is_running, "it runs already"
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | self._environment,
                cwd=self._directory,
                start_new_session=self._own_session,
            )

    @property
    def is_running(self) -> bool:
        """A process that SIGSTOP has stopped runs too."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def status(self) -> int | None:
        """How it has ended; None while it runs."""
        return self._started.poll()

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was never started"
        return self._process

    def tell(self, number: signal.Signals) -> None:
        self._started.send_signal(number)

    def end(self, seconds: float | None = None) -> int:
        """Return the status of a process that ends by itself, or by force after `seconds`."""
        try:
            return self._started.wait(self._end_s if seconds is None else seconds)
        except subprocess.TimeoutExpired:
            return self.kill()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.tell(number)
        return self.end()

    def kill(self) -> int:
        self._started.kill()
        return self._started.wait()

    def said(self) -> str:
        """Return the whole lines that it has said so far, of former starts too."""
        return whole_text(self.log)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.is_running:
            return
        status = self.stop()
        # one that is just starting has no handler yet, and ends by the signal
        if status not in (0, -signal.SIGTERM):
            told = (
                f"it did not end by itself within {self._end_s} s"
                if status == -signal.SIGKILL
                else f"it ended with status {status}"
            )
            # what has gone wrong before says more
            if error is None:
                raise AssertionError(f"{told}:\n{self.said()[-TOLD_MAX:]}")
            error.add_note(f"when it was stopped then, {told}")


def service(
    role: str, config: Path, log: Path, *more: str, environment: Mapping[str, str] | None = None
) -> ServiceProcess:
    """Return a node or a gateway (`role`) with this configuration, not started."""
    command = [*SERVICE, role, "--config", str(config), *more]
    return ServiceProcess(command, log, environment=environment)
