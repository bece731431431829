"""Requests to the catalog that a client may repeat."""

from __future__ import annotations

import pytest

from svc_cluster.base.errors import AlreadyExistsError, RateLimitedError, TokenNotFoundError
from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog.catalog_commands import (
    CatalogCommand,
    CatalogWrite,
    CreateBasin,
    DeleteBasin,
    ExpireCatalogIdempotencyKeys,
    IdempotentCatalogWrite,
    RegisterNode,
    RemoveBasin,
)
from svc_cluster.catalog.catalog_state import CatalogApplied, CatalogRejected
from svc_cluster.catalog.idempotency import IdempotentCatalogAnswer, decide_idempotent
from svc_cluster.codec.catalog_entry import (
    CatalogEntryFormatError,
    decode_catalog_entry,
    encode_catalog_entry,
)
from svc_cluster.model.idempotency_table import IDEMPOTENCY_KEYS_KEPT_MS, IdempotencyRow
from svc_cluster.model.stream_config import BasinConfig
from tests.unit.catalog.support import Catalog

KEY = bytes(range(32))
OTHER = b"o" * 32
NOW = TimestampMs(5_000)
NODES = (NodeId(1), NodeId(2), NodeId(3))
CREATE = CreateBasin("basin-one", GroupId(2), NODES, BasinConfig(), NOW)


def ask(
    catalog: Catalog,
    write: CatalogWrite | Exception | None,
    key: bytes = KEY,
    idempotency_keys_max: int = 10,
    now_ms: int = NOW,
) -> IdempotentCatalogAnswer:
    def decide(_: TimestampMs) -> CatalogWrite | None:
        if isinstance(write, Exception):
            raise write
        return write

    return decide_idempotent(
        catalog.state.idempotency,
        idempotency_keys_max,
        key,
        decide,
        lambda command: b"made" if command is not None else b"there",
        lambda refused: str(refused).encode(),
        TimestampMs(now_ms),
    )


def do(
    catalog: Catalog, answered: IdempotentCatalogAnswer
) -> list[CatalogApplied | CatalogRejected]:
    assert answered.command is not None
    (command,) = decode_catalog_entry(encode_catalog_entry([answered.command]))
    return catalog.apply(command)


def test_the_write_and_its_answer_are_one_entry() -> None:
    """From then on the answer stands, over a restart and when the basin is gone."""
    catalog = Catalog()
    first = ask(catalog, CREATE)
    assert do(catalog, first)[0] == CatalogApplied(catalog.state.basins["basin-one"])
    assert ask(catalog, AlreadyExistsError("taken")) == IdempotentCatalogAnswer(b"made", None)
    catalog.apply(DeleteBasin("basin-one", NOW), RemoveBasin(GroupId(2)))
    assert "basin-one" not in catalog.state.basins
    catalog.state = catalog.reopened()
    assert ask(catalog, CREATE) == IdempotentCatalogAnswer(b"made", None)
    assert catalog.state.idempotency.count == 1


@pytest.mark.parametrize(
    ("write", "answer"), [(None, b"there"), (AlreadyExistsError("taken"), b"taken")]
)
def test_an_answer_without_a_write_is_kept_too(write: Exception | None, answer: bytes) -> None:
    """Nothing had to change, or a definite refusal."""
    catalog = Catalog()
    first = ask(catalog, write)
    assert first == IdempotentCatalogAnswer(answer, IdempotentCatalogWrite(KEY, NOW, answer))
    assert do(catalog, first) == [CatalogApplied()]
    assert ask(catalog, CREATE) == IdempotentCatalogAnswer(answer, None)


def test_what_is_no_outcome_is_not_kept() -> None:
    """Asked again, it is decided again."""
    catalog = Catalog()
    with pytest.raises(TokenNotFoundError):
        ask(catalog, TokenNotFoundError())
    assert ask(catalog, CREATE).command is not None


def test_a_write_that_is_rejected_leaves_no_answer() -> None:
    """Both or neither."""
    catalog = Catalog()
    first = ask(catalog, DeleteBasin("basin-one", NOW))
    assert do(catalog, first) == [CatalogRejected("no such basin")]
    assert catalog.state.idempotency.count == 0


def test_a_second_write_with_one_key_is_rejected() -> None:
    """In the same entry and in a later one."""
    catalog = Catalog()
    keyed = IdempotentCatalogWrite(KEY, NOW, b"a", CREATE)
    first, second = catalog.apply(keyed, IdempotentCatalogWrite(KEY, NOW, b"b"))
    assert isinstance(first, CatalogApplied)
    assert isinstance(second, CatalogRejected)
    assert isinstance(catalog.apply(keyed)[0], CatalogRejected)
    assert catalog.state.idempotency.find(KEY) == IdempotencyRow(NOW, b"a")


def test_a_full_catalog_refuses_until_the_oldest_is_forgotten() -> None:
    """Known requests are answered all the time."""
    catalog = Catalog()
    do(catalog, ask(catalog, None))
    with pytest.raises(RateLimitedError) as full:
        ask(catalog, None, OTHER, idempotency_keys_max=1, now_ms=NOW + 7)
    assert full.value.retry_after_ms == IDEMPOTENCY_KEYS_KEPT_MS - 7
    assert ask(catalog, None, idempotency_keys_max=1).command is None
    again = IdempotentCatalogWrite(KEY, TimestampMs(NOW + 1), b"again")
    catalog.apply(ExpireCatalogIdempotencyKeys(TimestampMs(NOW + 1), 9), again)
    assert catalog.reopened().idempotency.count == 1
    assert catalog.reopened().idempotency.find(KEY) == IdempotencyRow(NOW + 1, b"again")
    catalog.apply(ExpireCatalogIdempotencyKeys(TimestampMs(NOW + 2), 9))
    assert catalog.reopened().idempotency.count == 0
    assert ask(catalog, None, OTHER, idempotency_keys_max=1).command is not None


@pytest.mark.parametrize(
    ("command", "golden"),
    [
        (
            IdempotentCatalogWrite(KEY, TimestampMs(5), b"\x52\x00", DeleteBasin("basin-one", NOW)),
            "09810a3c2a3a0a20000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f10051a"
            "02520022101a0e0a09626173696e2d6f6e65108827",
        ),
        (
            IdempotentCatalogWrite(KEY, TimestampMs(5), b"\x12\x00"),
            "09810a2a2a280a20000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f10051a"
            "021200",
        ),
        (ExpireCatalogIdempotencyKeys(TimestampMs(300), 9), "09810a07320508ac021009"),
    ],
)
def test_bytes_of_entries_are_fixed(command: CatalogCommand, golden: str) -> None:
    """Logs outlive programs."""
    assert encode_catalog_entry([command]).hex() == golden
    assert decode_catalog_entry(bytes.fromhex(golden)) == [command]


def test_bytes_of_a_row_are_fixed() -> None:
    """States do too."""
    catalog = Catalog()
    catalog.apply(IdempotentCatalogWrite(KEY, TimestampMs(1_700_000_000_000), b"answer"))
    rows = {key.hex(): value.hex() for key, value in catalog.store.pairs.items() if key != b"\0"}
    assert rows == {
        "28" + KEY.hex(): "92cf0000018bcfe56800c406616e73776572",
        "29" + "0000018bcfe56800" + KEY.hex(): "",
        "2a": "0000000000000001",
    }


@pytest.mark.parametrize("write", [RegisterNode(NodeId(1), "i", "a"), RemoveBasin(GroupId(2))])
def test_what_no_client_asks_for_has_no_key(write: CatalogCommand) -> None:
    """An entry that says otherwise is none of ours."""
    keyed = IdempotentCatalogWrite(KEY, NOW, b"", write)  # type: ignore[arg-type]
    with pytest.raises(CatalogEntryFormatError):
        decode_catalog_entry(encode_catalog_entry([keyed]))
