"""One run from three nodes to more and back to three, and its verdict."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from tests.compatibility.programs import Program
from tests.elastic.cluster import FIRST, ElasticCluster
from tests.elastic.load import ElasticLoad
from tests.elastic.steps import Story, equal_copies, row
from tests.linearizability.history import write_history

FAULTS_SHOWN: Final = 20


async def run(
    directory: Path,
    *,
    basins: int,
    joined: tuple[int, ...],
    think_s: float,
    seed: int,
    keep: Path | None = None,
    earlier: Program | None = None,
) -> None:
    """Play it all and print the figures. Raises AssertionError for anything that was lost, refused
    for good or out of order."""
    cluster = ElasticCluster(directory, earlier)
    load = ElasticLoad(cluster.urls, basins, think_s, seed)
    begun = time.monotonic()
    try:
        cluster.start()
        for url in cluster.urls:
            await cluster.ready(url)
        if earlier is None:  # the administration of an earlier one may not know the question
            await cluster.insist("cluster", "health")
        await load.set_up()
        print(f"{len(FIRST)} nodes, {basins} basins, {len(cluster.urls)} gateways", flush=True)
        load.start()
        story = Story(cluster, load, joined, "" if earlier is None else earlier.release)
        await story.play()
        await load.stop()
        await equal_copies(cluster, load.basins)
        await load.read_all()
        _judge(story, load, time.monotonic() - begun)
    except BaseException:
        print(cluster.said())
        raise
    finally:
        await load.abandon()
        cluster.end()
        if keep is not None:
            _keep(load, keep)


def _judge(story: Story, load: ElasticLoad, seconds: float) -> None:
    print("")
    for figures in story.figures:
        print(row(figures))
    acknowledged, lost = load.lost()
    violations = load.violations()
    longest = max(load.waits, key=lambda wait: wait.seconds)
    ordered = sorted(wait.seconds for wait in load.waits)
    print(
        f"\n{seconds:.0f} s, {story.cluster.commands} commands; {load.recorder.operations} "
        f"operations judged, {len(violations)} violations\n"
        f"{len(load.waits)} appends of {acknowledged} records acknowledged: {lost} lost, "
        f"{len(load.errors)} errors behind {load.recorder.counts.retries} retries\n"
        f"append p50 {ordered[len(ordered) // 2] * 1000:.0f} ms, p99 "
        f"{ordered[len(ordered) * 99 // 100] * 1000:.0f} ms, longest stall "
        f"{longest.seconds:.2f} s ({longest.basin})",
        flush=True,
    )
    assert not violations, "\n".join(violations[:FAULTS_SHOWN])
    assert (lost, load.errors) == (0, []), (lost, load.errors[:FAULTS_SHOWN])


def _keep(load: ElasticLoad, directory: Path) -> None:
    """The history of each stream and what it held at the end, for the checker alone."""
    directory.mkdir(parents=True, exist_ok=True)
    for client in load.clients:
        history = client.history
        with (directory / f"{history.basin}.jsonl").open("w") as out:
            write_history(history.operations, out)
        with (directory / f"{history.basin}.final").open("w") as out:
            final = load.final.get(history.basin, ())
            out.writelines(f"{r.seq_num}\t{r.timestamp_ms}\t{r.body}\n" for r in final)
