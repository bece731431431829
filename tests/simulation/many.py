"""Seeds in several processes: what a worker process runs, importable by name."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.simulation.cluster import Report, SimulationFailedError, simulate
from tests.simulation.features import drawn

Job = tuple[int, float, bool, bool]
"""(seed, virtual seconds under faults, whether to print the trace, whether logs decay)"""


def run_job(job: Job) -> Report | str:
    """The report, or the text of the failure."""
    seed, seconds, trace, rot = job
    options = replace(drawn(seed, rot=rot), safety_s=seconds)
    try:
        return simulate(seed, options, sink=print if trace else None)
    except SimulationFailedError as failure:
        return str(failure)


def run_jobs(jobs: Sequence[Job], processes: int) -> Iterator[Report | str]:
    """Results in the order of `jobs`, as they come."""
    if processes == 1:
        yield from map(run_job, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(run_job, jobs)
