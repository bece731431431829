"""A small share of the fuzzing: kept inputs, some by chance, and that faults are seen and told."""

from __future__ import annotations

import random
import socket
import time
from pathlib import Path

import pytest

from tests.fuzz import engine
from tests.fuzz.engine import FAULTS_MAX, drawn, run_by_chance, run_inputs
from tests.fuzz.guided import run_guided
from tests.fuzz.over_http import Heads, Listening
from tests.fuzz.target import INPUT_BYTES_MAX, Check, Target, WrongError, expect, kept
from tests.fuzz.targets import TARGETS, is_here

SLOW = {"wal": 120, "settings": 120, "http1": 150, "http1-beside-h11": 150, "http2": 150}


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs_and_some_by_chance(name: str) -> None:
    """No crash, no hang, no 5xx, nothing taken that must not be."""
    target = TARGETS[name]
    if not is_here(target.needs):
        pytest.skip(f"{target.needs} is not installed: make fuzz compares with it where it can")
    assert run_inputs(target, kept(name)).faults == []
    assert run_by_chance(target, SLOW.get(name, 500), 1).faults == []


def test_every_target_has_kept_inputs_and_none_is_of_no_target() -> None:
    """Short ones, each once."""
    for name in TARGETS:
        inputs = kept(name)
        assert len(set(inputs)) == len(inputs) >= 3, name
        assert max(map(len, inputs)) <= INPUT_BYTES_MAX
    folder = Path(__file__).parent / "kept"
    assert {path.stem for path in folder.glob("*.hex")} == set(TARGETS)


def _refuses_nothing() -> Check:
    def check(data: bytes) -> None:
        expect(not data.startswith(b"bad"), "taken")

    return check


FRAGILE = Target("fragile", _refuses_nothing, lambda rng: b"ba" + rng.choice((b"d", b"c")))


def test_a_fault_is_told_with_its_input() -> None:
    """And a target that has too many is given up."""
    found = run_inputs(FRAGILE, [b"good", b"bad 1"])
    assert (found.inputs, found.faults) == (2, [("WrongError: taken (expect)", b"bad 1")])
    assert len(run_inputs(FRAGILE, [b"bad"] * 100).faults) == FAULTS_MAX
    assert run_by_chance(FRAGILE, 200, 1).faults


def test_an_endless_parser_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is interrupted, and told as what it is."""
    monkeypatch.setattr(engine, "HANG_S", 0.05)

    def endless() -> Check:
        def check(_data: bytes) -> None:
            end = time.monotonic() + 30
            while time.monotonic() < end:
                pass

        return check

    (told,) = run_inputs(Target("endless", endless, lambda _: b""), [b"x"]).faults
    assert told[0].startswith("HangError")


@pytest.mark.timeout(60)
def test_a_server_that_neither_answers_nor_ends_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence does not pass for a server that waits for more: the client has said that it is
    done."""
    listening = Listening(Heads)
    try:
        assert listening.send(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", random.Random(1))
        assert listening.send(b"GET", random.Random(1)) == b""
        with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as patched:
            patched.setattr(type(listening._server), "port", silent.getsockname()[1])
            with pytest.raises(WrongError, match="neither an answer nor an end"):
                listening.send(b"GET", random.Random(1))
    finally:
        listening.close()


def test_inputs_by_chance_are_the_seeds_own() -> None:
    """The same seed draws the same inputs, another one others, none beyond the bound."""
    target = TARGETS["frames"]
    first = list(drawn(target, random.Random(1), 50))
    assert first == list(drawn(target, random.Random(1), 50))
    assert first != list(drawn(target, random.Random(2), 50))
    assert max(map(len, first)) <= INPUT_BYTES_MAX


def test_inputs_by_coverage(tmp_path: Path) -> None:
    """As many as were asked for; what reaches more is put beside the corpus."""
    if not is_here("atheris"):
        pytest.skip("atheris is not installed: make fuzz installs it where it can")
    found = run_guided(TARGETS["dates"], 500, 3, tmp_path / "dates")
    assert (found.inputs >= 500, found.faults) == (True, [])
    assert list((tmp_path / "dates").iterdir())
