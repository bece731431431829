"""Every parser of what clients send, under 20,000 inputs each. `python -m tests.property.codec`
takes it further."""

from __future__ import annotations

import pytest

from tests.property.codec.parsers import PARSERS, REFUSED, TAKEN, Parser, fuzz

INPUTS = 20_000


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name.replace(" ", "-"))
def test_any_input_is_refused_as_declared_or_taken_rightly(parser: Parser) -> None:
    """No other exception, no wrong value; and the inputs reach both sides of every parser."""
    outcomes = fuzz(parser, INPUTS, seed=1)
    assert outcomes[TAKEN] > INPUTS / 20, outcomes
    assert outcomes[REFUSED] > INPUTS / 20, outcomes
