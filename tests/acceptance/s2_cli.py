"""Every verb of S2's official `s2` command against three nodes, as a table.

`python -m tests.acceptance.s2_cli --s2 PATH [--write docs/s2-cli.md]`; the status is 0 when nothing
failed. The command comes from `cargo install --locked s2-cli`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.acceptance.s2_command import NotServedError, S2Command
from tests.acceptance.s2_verbs import CHECKS, LOCAL_VERBS, uncovered
from tests.e2e.cluster import running
from tests.scenarios.http.conversation import digest

SECONDS_MAX: Final = 170.0
"""After this long nothing more is begun: what is left has failed."""

CONVERSATION: Final = Path(__file__).resolve().parents[1] / "scenarios" / "http" / "s2_command.txt"
"""What the gateway answers to such requests as the command sends, by the byte."""

OK: Final = "ok"
NOT_SERVED: Final = "not served yet"
FAILED: Final = "**failed**"


@dataclass(frozen=True, slots=True)
class Row:
    verb: str
    what: str
    result: str
    remark: str = ""


def run_checks(s2: S2Command) -> list[Row]:
    """One row a check, in their order, each printed as it ends."""
    begun = time.monotonic()
    rows = [
        Row(verb, "is a verb that nobody has written a check for", FAILED)
        for verb in uncovered(s2.ok("--help").out)
    ]
    for one in CHECKS:
        moment = time.monotonic()
        if moment - begun > SECONDS_MAX:
            row = Row(one.verb, one.what, FAILED, "no time was left")
        else:
            try:
                row = Row(one.verb, one.what, OK, one.run(s2) or "")
            except NotServedError:
                row = Row(one.verb, one.what, NOT_SERVED)
            except AssertionError as wrong:
                row = Row(one.verb, one.what, FAILED, str(wrong))
            except (OSError, ValueError, LookupError) as fault:  # an answer of another shape
                row = Row(one.verb, one.what, FAILED, repr(fault))
        rows.append(row)
        print(f"{time.monotonic() - moment:6.2f} s  {row.verb}: {row.result} {row.remark}")
    return rows


async def against_a_cluster(binary: Path, directory: Path) -> tuple[str, list[Row]]:
    """What the command says of its version, and the rows."""
    home = directory / "home"
    home.mkdir()
    async with running(directory / "cluster") as cluster:
        s2 = S2Command(binary, cluster.url, home)
        name = s2.ok("--version").lines[0]
        return name, await asyncio.to_thread(run_checks, s2)


def page(command: str, rows: list[Row]) -> str:
    """The document."""
    count = {result: sum(row.result == result for row in rows) for result in (OK, NOT_SERVED)}
    lines = [
        "# S2's command against three nodes",
        "",
        "Written by `make s2-cli`, which runs the official command, unmodified, over HTTP/1.1 and",
        "looks at what each verb has brought about, beside the command too.",
        "",
        f"- command: `{command}`, by `cargo install --locked s2-cli`",
        f"- service: svc-cluster {version('svc-cluster')}, three nodes and a gateway, that answer",
        f"  as in the kept conversation whose digest is `{digest(CONVERSATION)}`",
        f"- date: {datetime.now(UTC).date().isoformat()}",
        f"- result: {count[OK]} ok, {count[NOT_SERVED]} not served yet, "
        f"{len(rows) - count[OK] - count[NOT_SERVED]} failed",
        "",
        "| verb | looked at | result |",
        "|---|---|---|",
    ]
    for row in rows:
        remark = " ".join(row.remark.replace("|", "\\|").split())
        result = f"{row.result}: {remark}" if remark else row.result
        lines.append(f"| `{row.verb}` | {row.what} | {result} |")
    local = ", ".join(f"`{verb}`" for verb in LOCAL_VERBS)
    lines += ["", f"Not run, since they ask nothing of a service: {local}."]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--s2", type=Path, required=True, help="the command's binary")
    parser.add_argument("--write", type=Path, help="the document to write")
    arguments = parser.parse_args()
    if not arguments.s2.is_file():
        sys.exit(f"{arguments.s2} is no file: `cargo install --locked s2-cli` makes one")
    with tempfile.TemporaryDirectory(prefix="s2-cli-") as directory:
        command, rows = asyncio.run(against_a_cluster(arguments.s2.resolve(), Path(directory)))
    text = page(command, rows)
    if arguments.write is None:
        print(text)
    else:
        arguments.write.write_text(text)
    return int(any(row.result == FAILED for row in rows))


if __name__ == "__main__":
    sys.exit(main())
