"""What the parent of a gateway's processes decides, and what each process is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svc_cluster.cli.processes.gateway_group import (
    FAILED_STARTS_MAX,
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    SILENCE_SECONDS,
    START_SECONDS,
    STEADY_SECONDS,
    Again,
    GiveUp,
    GroupPlan,
)
from svc_cluster.cli.processes.gateway_place import BEAT_SECONDS, ProcessPlace, own_place, part_of
from svc_cluster.cli.processes.process import EXIT_FATAL
from svc_cluster.settings import GatewaySettings
from svc_cluster.settings_bounds import DIVIDED
from svc_cluster.settings_errors import (
    EXIT_MISSING_FILE,
    SettingsError,
)

NODES = {"1": "127.0.0.1:7000"}


def plan_of(*serving: int, starting: tuple[int, ...] = ()) -> GroupPlan:
    plan = GroupPlan()
    for number in (*serving, *starting):
        plan.began(number, 0.0)
    for number in serving:
        plan.serves(number)
    return plan


def test_a_refusal_at_the_first_start_is_that_of_the_whole() -> None:
    """The others would be refused as well. Once one has served, the settings have changed since:
    it is tried again."""
    assert plan_of(starting=(1, 2)).ended(2, EXIT_MISSING_FILE, 0.1) == GiveUp(EXIT_MISSING_FILE)
    plan = plan_of(1, starting=(2,))
    assert plan.ended(2, EXIT_MISSING_FILE, 0.1) == Again(PAUSE_SECONDS_MIN)
    assert plan.ended(1, EXIT_MISSING_FILE, 0.1) == Again(PAUSE_SECONDS_MIN)


@pytest.mark.parametrize(("status", "said"), [(-9, EXIT_FATAL), (70, 70), (0, EXIT_FATAL)])
def test_starts_that_fail_in_a_row_are_given_up_while_nobody_serves(status: int, said: int) -> None:
    """After as many as the bound says. A signal, and an end without a reason, are faults."""
    plan = plan_of(starting=(1,))
    for _ in range(FAILED_STARTS_MAX - 1):
        assert isinstance(plan.ended(1, status, 0.1), Again)
        plan.began(1, 0.1)
    assert plan.ended(1, status, 0.1) == GiveUp(said)


def test_as_long_as_one_serves_nothing_is_given_up() -> None:
    """However often another one fails; and one that comes to serve begins the count anew."""
    plan = plan_of(1, starting=(2,))
    for _ in range(3 * FAILED_STARTS_MAX):
        assert isinstance(plan.ended(2, 70, 0.1), Again)
        plan.began(2, 0.1)
    plan.serves(2)
    assert isinstance(plan.ended(2, 70, 0.1), Again)
    assert isinstance(plan.ended(1, 70, 0.1), Again)


def test_pauses_double_up_to_their_bound_and_begin_anew_behind_a_steady_time() -> None:
    """Each process has its own."""
    plan = plan_of(1, 2)
    pauses = []
    for _ in range(8):
        found = plan.ended(1, -9, 1.0)
        assert isinstance(found, Again)
        pauses.append(found.seconds)
        plan.began(1, 1.0)
        plan.serves(1)
    assert pauses[:3] == [PAUSE_SECONDS_MIN, 2 * PAUSE_SECONDS_MIN, 4 * PAUSE_SECONDS_MIN]
    assert pauses[-1] == PAUSE_SECONDS_MAX
    assert plan.ended(2, -9, 1.0) == Again(PAUSE_SECONDS_MIN)
    assert plan.ended(1, -9, 1.0 + STEADY_SECONDS) == Again(PAUSE_SECONDS_MIN)


def test_a_process_hangs_that_serves_and_is_not_heard_for_so_many_looks() -> None:
    """Each word begins the count anew, however late it comes, and so does a start. Nobody hears of
    the others' silence."""
    plan = plan_of(1, 2)
    looks = int(SILENCE_SECONDS / BEAT_SECONDS)
    for _ in range(3):
        assert [plan.silent(1) for _ in range(looks - 1)] == [None] * (looks - 1)
        plan.serves(1)
    assert [plan.silent(1) for _ in range(looks - 1)] == [None] * (looks - 1)
    assert plan.silent(2) is None
    assert plan.silent(1) == SILENCE_SECONDS
    plan.ended(1, -9, 20.0)
    plan.began(1, 20.2)
    plan.serves(1)
    assert plan.silent(1) is None


def test_a_process_that_starts_is_borne_with_for_longer() -> None:
    """It has much to load, and says nothing before it serves. That has its bound as well."""
    plan = plan_of(1, starting=(2,))
    looks = int(START_SECONDS / BEAT_SECONDS)
    assert [plan.silent(2) for _ in range(looks - 1)] == [None] * (looks - 1)
    assert plan.silent(2) == START_SECONDS


def test_a_process_is_told_its_place() -> None:
    """What the parent says is what the child reads; without it there is none; half of it is a
    mistake of somebody's environment."""
    place = ProcessPlace(2, 3, Path("/run/group"))
    told = place.environment(8080)
    assert own_place(told) == place
    assert own_place({}) is None
    for wrong in ({"SVC_CLUSTER_PROCESS": "2"}, told | {"SVC_CLUSTER_PROCESS": "4"}):
        with pytest.raises(SettingsError, match=r"SVC_CLUSTER_PROCESS is '[24]'"):
            own_place(wrong)


def test_each_process_has_its_part_of_what_is_bounded_for_the_gateway() -> None:
    """Parts are within their own bounds, and together never more than the whole. The limits of
    rates stay as they are: processes share them as gateways do."""
    settings = GatewaySettings(
        cluster_id="c", nodes=NODES, secret_file="-", processes=3, account_requests_per_second=9.0
    )
    settings.check()
    part = part_of(settings, 3)
    part.check()
    for key in DIVIDED:
        assert 3 * getattr(part, key) <= getattr(settings, key) < 3 * (getattr(part, key) + 1)
    assert part.failed_authentications_per_second == pytest.approx(20 / 3)
    assert (part.processes, part.account_requests_per_second) == (1, 9.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"processes": 0}, "processes is 0: use 1 to 64"),
        ({"processes": 65}, "processes is 65: use 1 to 64"),
        ({"processes": 6}, "memory_mib is 352: use 384 to 1048576"),
        (
            {"processes": 5, "memory_mib": 320, "body_mib_in_flight": 240},
            "processes 5 use",
        ),
        ({"processes": 4, "connections_max": 63}, "connections_max is 63: use 64 to 1000000"),
    ],
)
def test_parts_that_are_too_small_are_refused(changes: dict[str, Any], words: str) -> None:
    """Before any process is started."""
    settings = GatewaySettings(cluster_id="c", nodes=NODES, secret_file="-", **changes)
    with pytest.raises(SettingsError, match=words):
        settings.check()
