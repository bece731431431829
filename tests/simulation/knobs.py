"""Constants of the product that a simulation makes smaller, so that rare paths are common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

Constants = tuple[tuple[str, float], ...]
"""(`module.NAME`, value): of modules in `svc_cluster.replica` that read it at each use, or
(`layer.module.NAME`, value) of another layer."""


@contextmanager
def changed(constants: Constants) -> Iterator[None]:
    """The constants are others for a while."""
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for key, value in constants:
            path, name = key.rsplit(".", 1)
            module = path if "." in path else f"replica.{path}"
            names = vars(import_module(f"svc_cluster.{module}"))
            assert isinstance(names[name], int | float), f"{key} is a number"
            before.append((names, name, names[name]))
            names[name] = value
        yield
    finally:
        for names, name, value in reversed(before):
            names[name] = value
