"""Options that several commands have in common are declared once, as the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Result = TypeVar("Result")


class SharedOptions:
    """The base of dataclasses whose fields are options."""

    __slots__ = ()


def with_shared_options(work: Callable[..., Result]) -> Callable[..., Result]:
    """Return a command of which each parameter of a type of shared options has become that type's
    fields, in its place. What is given for them is handed to `work` as one value."""
    own = inspect.signature(work, eval_str=True).parameters.values()
    shared = {
        each.name: _Shared(each.annotation)
        for each in own
        if isinstance(each.annotation, type) and issubclass(each.annotation, SharedOptions)
    }
    options: list[inspect.Parameter] = []
    for each in own:
        options += shared[each.name].options if each.name in shared else [each]

    @wraps(work)
    def command(*leading: object, **given: object) -> Result:
        for name, value in shared.items():
            given[name] = value.made({each.name: given.pop(each.name) for each in value.options})
        return work(*leading, **given)

    # typer reads these two; one without a default may stand behind one that has it
    options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options]
    command.__dict__["__signature__"] = inspect.Signature(options)
    command.__annotations__ = {each.name: each.annotation for each in options}
    return command


class _Shared:
    """The options that a type stands for."""

    def __init__(self, kind: Callable[..., object]) -> None:
        self._kind = kind
        self.options = list(inspect.signature(kind, eval_str=True).parameters.values())

    def made(self, given: dict[str, object]) -> object:
        return self._kind(**given)
