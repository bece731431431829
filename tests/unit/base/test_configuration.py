"""How a configuration is written down, and what of it is refused."""

from __future__ import annotations

import pytest

from svc_cluster.base.configuration import (
    CONFIGURATIONS_MAX,
    MEMBERS_MAX,
    TERM_BITS,
    Configuration,
    ConfigurationFormatError,
    GroupMember,
    configuration_of,
    decode_configuration,
    encode_configuration,
    first_configuration,
    is_of_newer_format,
)
from svc_cluster.base.ids import LogIndex, NodeId, ReplicaId, Term


def of(*nodes: int, number: int = 3) -> Configuration:
    members = tuple(GroupMember(NodeId(node), ReplicaId(50 + node)) for node in nodes)
    return Configuration(number, members, LogIndex(7), Term(9))


def test_a_configuration_survives_its_encoding() -> None:
    """Of one member and of as many as there may be."""
    for configuration in (of(4), of(*range(MEMBERS_MAX)), of(1, number=CONFIGURATIONS_MAX - 1)):
        assert decode_configuration(encode_configuration(configuration)) == configuration


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        encode_configuration(of(1))[:-1],
        encode_configuration(of(1)) + b"\x00",
        encode_configuration(of(1, 2))[:-16],
        encode_configuration(of()),
        encode_configuration(of(2, 1)),
        encode_configuration(of(1, 1)),
        encode_configuration(of(*range(MEMBERS_MAX + 1))),
        encode_configuration(of(1, number=CONFIGURATIONS_MAX)),
        b"\x02" + encode_configuration(of(1))[1:],
    ],
)
def test_what_is_no_configuration_is_refused(data: bytes) -> None:
    """Lengths, counts, orders, numbers beyond the bound and formats to come."""
    with pytest.raises(ConfigurationFormatError):
        decode_configuration(data)


def test_a_format_to_come_is_told_from_damage() -> None:
    """By its first byte, which only ever grows."""
    data = encode_configuration(of(1))
    assert [is_of_newer_format(each) for each in (b"", data, b"\x02" + data[1:])] == [
        False,
        False,
        True,
    ]


def test_a_term_names_its_configuration() -> None:
    """Those of what a group was created with are the small ones."""
    assert [configuration_of(Term(term)) for term in (0, 5, (1 << TERM_BITS) - 1)] == [0, 0, 0]
    assert configuration_of(of(1).first_term) == 3
    assert configuration_of(Term(of(1).first_term - 1)) == 2


def test_the_first_configuration_has_the_nodes_numbers() -> None:
    """In the order of the nodes, whoever names them how."""
    assert first_configuration([NodeId(3), NodeId(1)]).members == (
        GroupMember(NodeId(1), ReplicaId(1)),
        GroupMember(NodeId(3), ReplicaId(3)),
    )
    assert first_configuration([NodeId(1), NodeId(2), NodeId(3)]).quorum == 2
