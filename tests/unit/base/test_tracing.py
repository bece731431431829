"""What is understood of W3C's trace context, and what is bounded of a span."""

from __future__ import annotations

import pytest

from svc_cluster.base.tracing import (
    ATTRIBUTE_CHARS_MAX,
    ATTRIBUTES_MAX,
    STATE_BYTES_MAX,
    TraceContext,
    bounded,
    parse_traceparent,
    parse_tracestate,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = TraceContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN))


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-fe", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-will-be", True),
    ],
)
def test_a_traceparent_names_a_span_and_says_whether_it_is_sampled(
    text: str, sampled: bool
) -> None:
    """By one bit of its flags; a later version may have more behind them."""
    assert parse_traceparent(text) == (CONTEXT, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0g",
        f"ff-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"cc-{TRACE}-{SPAN}-01-{'x' * STATE_BYTES_MAX}",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
    ],
)
def test_what_is_no_traceparent_is_none(text: str) -> None:
    assert parse_traceparent(text) is None


def test_a_tracestate_keeps_its_members_in_order() -> None:
    """Of several headers, without the blanks between members and without empty ones."""
    assert parse_tracestate(["a=1 , b@c=x y,", "d/e=~"]) == "a=1,b@c=x y,d/e=~"
    assert parse_tracestate([]) == ""


@pytest.mark.parametrize(
    "values",
    [
        ["a=1,a=2"],
        ["A=1"],
        ["a"],
        ["a="],
        ["a=b=c"],
        ["a=\u00e4"],
        [",".join(f"k{n}=1" for n in range(33))],
        [f"a={'x' * STATE_BYTES_MAX}"],
    ],
)
def test_a_tracestate_that_is_none_is_left_out_as_a_whole(values: list[str]) -> None:
    assert parse_tracestate(values) == ""


def test_attributes_are_bounded() -> None:
    """What is not there is not told; of many the first are, and long texts are cut."""
    many: dict[str, int | None] = {f"k{n}": n for n in range(ATTRIBUTES_MAX + 5)}
    assert list(bounded({"none": None, **many})) == list(many)[:ATTRIBUTES_MAX]
    assert bounded({"long": "x" * 9999, "number": 7}) == {
        "long": "x" * ATTRIBUTE_CHARS_MAX,
        "number": 7,
    }
