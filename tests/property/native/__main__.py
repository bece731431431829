"""`python -m tests.property.native --core FILE --inputs N`: N inputs for each function of a core,
which may have been compiled with sanitizers."""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from types import ModuleType

from svc_cluster.codec.json_body import DataFormat
from tests.native_build import core_of_this_tree, loaded
from tests.property.codec import inputs as spoiling
from tests.property.native import inputs
from tests.property.native.differential import append_agrees, cut_agrees, read_agrees


def an_append(core: ModuleType, rng: random.Random) -> bool:
    data_format = rng.choice(tuple(DataFormat))
    make = rng.random()
    if make < 0.8:
        body = inputs.append_body(rng, is_base64=data_format is DataFormat.BASE64)
    else:
        body = spoiling.json_append(rng)
    body = spoiling.spoilt(rng, body)
    try:
        return append_agrees(core, body, data_format)
    except AssertionError as fault:
        raise AssertionError(f"{data_format}: {body!r}") from fault


def a_read(core: ModuleType, rng: random.Random) -> bool:
    read = inputs.read(rng, is_plain=rng.random() < 0.3)
    try:
        return read_agrees(core, read)
    except AssertionError as fault:
        raise AssertionError(repr(read)[:20_000]) from fault


def a_cut(core: ModuleType, rng: random.Random) -> bool:
    read = inputs.bounded_read(rng, is_plain=rng.random() < 0.6)
    try:
        return cut_agrees(core, read)
    except AssertionError as fault:
        raise AssertionError(repr(read)[:20_000]) from fault


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.property.native", description=__doc__)
    parser.add_argument("--core", type=Path, help="default: compiled of this tree")
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    core = core_of_this_tree() if options.core is None else loaded(options.core)
    for check in (an_append, a_read, a_cut):
        rng = random.Random(options.seed)
        begin = time.monotonic()
        answered = sum(check(core, rng) for _ in range(options.inputs))
        seconds = time.monotonic() - begin
        print(
            f"{check.__name__}: {options.inputs} inputs in {seconds:.1f} s, answered {answered}",
            flush=True,
        )
        assert answered > options.inputs / 5, "most of what is plain is answered"
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
