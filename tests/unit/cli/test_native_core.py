"""The native core is used where it was built, unless it is turned off, and that is said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from svc_cluster import _native
from svc_cluster.base.metrics import Metrics
from svc_cluster.cli.processes.native_core import IN_USE, NOT_BUILT, choose_core, core_state
from svc_cluster.cli.processes.process import say_build
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.settings_errors import SettingsError
from tests.at_once import decode_json_append
from tests.native_build import compiler, core_of_this_tree


@pytest.fixture(autouse=True)
def _of_this_tree(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where there is a compiler the core is there, whatever is installed."""
    before = _native.is_in_use()
    if compiler() is not None:
        monkeypatch.setattr(_native, "_built", core_of_this_tree())
    yield
    monkeypatch.undo()
    _native.use(wanted=before)


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [({}, True), ({"SVC_CLUSTER_NATIVE": "on"}, True), ({"SVC_CLUSTER_NATIVE": "off"}, False)],
)
def test_the_environment_turns_it_off(environment: dict[str, str], wanted: bool) -> None:
    """The metric has the state; the answer is the same."""
    choose_core(environment)
    built = _native.source_digest() is not None
    expected = (IN_USE if wanted else "turned off") if built else NOT_BUILT
    assert core_state() == expected
    assert _native.is_in_use() is (wanted and built)
    metrics = Metrics()
    say_build(metrics, "gateway")
    assert b'svc_native_core_info{state="%b"} 1.0' % expected.encode() in metrics.expose()
    found = decode_json_append(b'{"records":[{"body":"x"}]}', DataFormat.UTF8)
    assert (found.batch.records, found.batch.metered_bytes) == (b"\x0a\x03\x1a\x01x", 9)


@pytest.mark.parametrize("word", ["", "no", "OFF"])
def test_another_word_is_refused(word: str) -> None:
    """Nobody believes that it is off while it is on."""
    with pytest.raises(SettingsError, match="`on` or `off`"):
        choose_core({"SVC_CLUSTER_NATIVE": word})
