"""The bound of what a report on a formation says of a restore."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.codec.formation_report import FormationFormatError, decode_report, encode_report
from svc_cluster.model.formation import RESTORED_LENGTH_MAX, FormationReport, Stage


def test_the_name_of_a_restore_has_so_many_characters_at_most() -> None:
    longest = "r" * RESTORED_LENGTH_MAX
    said = FormationReport(NodeId(1), "a" * 32, 0, Stage.GATHERING, (), restored=longest)
    assert decode_report(encode_report(said)) == said
    longer = FormationReport(NodeId(1), "a" * 32, 0, Stage.GATHERING, (), restored=longest + "r")
    with pytest.raises(FormationFormatError, match="contradicts itself"):
        decode_report(encode_report(longer))
