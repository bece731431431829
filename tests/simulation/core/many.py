"""Seeds in several processes: what a worker process runs. A worker imports it by its name, which is
why it stands in no `__main__`."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence

from tests.simulation.core.options import Options, draw
from tests.simulation.core.world import Outcome, run

Job = tuple[int, int | None]
"""(seed, nodes)"""


def run_job(job: Job) -> tuple[Options, Outcome, float]:
    """One seed, and the seconds that it took."""
    began = time.monotonic()
    options = draw(job[0], node_count=job[1])
    return options, run(options), time.monotonic() - began


def run_jobs(jobs: Sequence[Job], processes: int) -> Iterator[tuple[Options, Outcome, float]]:
    """Results in the order of `jobs`, as they come."""
    if processes == 1:
        yield from map(run_job, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(run_job, jobs)
