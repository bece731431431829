"""YAML as this project reads it: a key that stands twice is refused.

A refusal repeats no part of the text but such a key: it may be a secret.
"""

from __future__ import annotations

import re
from typing import Final

import yaml

KEY_CHARACTERS_MAX: Final = 64
"""Characters of a key that stands twice that are told."""
_QUOTES: Final = re.compile(r"""('(?:\\?.|<[a-z ]+>)')|['"].*""")
"""A character, or the library's own word for what it found; or what it repeats of the text."""
_MERGE: Final = "tag:yaml.org,2002:merge"


class YamlError(ValueError):
    """What is wrong with a text, in one line to be put behind its name, without a part of it."""


class _DoubledKeyError(yaml.YAMLError):
    """A key stands twice in one mapping. Most readers take the last one, and say nothing."""


class _Loader(yaml.SafeLoader):
    """No key stands twice in a mapping; what a merge brings may be overridden by one."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        # not while objects are made of it: merged keys stand among the others by then
        if isinstance(node, yaml.MappingNode) and not is_alias:
            self._refuse_doubled(node)
        return node

    def _refuse_doubled(self, node: yaml.MappingNode) -> None:
        lines: dict[object, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            # `1` and `"1"` are one key to whoever wants text, `1` and `0x1` to all others
            meant = key.value if key.tag == _MERGE else self.construct_object(key)
            for same in (("as written", key.value), ("as meant", meant)):
                if same in lines:
                    raise _doubled(key.value, f"in the lines {lines[same]} and {line}")
                lines[same] = line


class _PlainLoader(_Loader):
    """Without aliases: a page of them stands for gigabytes. Moments stay text."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not taken here")
        return super().compose_node(parent, index)


def _text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_PlainLoader.add_constructor("tag:yaml.org,2002:timestamp", _text)


def read_yaml(text: str) -> object:
    """Return what a file of settings, or a variable, holds. Raises YamlError."""
    return _read(text, _Loader)


def read_plain_yaml(text: bytes) -> object:
    """Return what a file from anywhere holds, in YAML or JSON, without aliases and with moments as
    text. Raises YamlError."""
    return _read(text, _PlainLoader)


def _read(text: str | bytes, loader: type[_Loader]) -> object:
    try:
        return yaml.load(text, loader)
    except _DoubledKeyError as cause:
        raise YamlError(str(cause)) from None
    except yaml.MarkedYAMLError as cause:
        raise YamlError(f"is not YAML: {_fault(cause)}") from None
    except yaml.reader.ReaderError as cause:
        raise YamlError(f"is not YAML: {cause.reason} at character {cause.position}") from None
    except Exception as cause:  # a date in month 13, brackets without end, and the like
        raise YamlError(f"is not YAML: {type(cause).__name__}") from None


def _fault(cause: yaml.MarkedYAMLError) -> str:
    """What it is and where, without the line that it is in, which the library would show."""
    said = cause.problem or cause.context or "a fault"
    told = _QUOTES.sub(lambda found: found[1] or "what stands there", said)
    mark = cause.problem_mark or cause.context_mark
    return told if mark is None else f"{told} in line {mark.line + 1}, column {mark.column + 1}"


def _doubled(key: str, where: str) -> _DoubledKeyError:
    shown = key[:KEY_CHARACTERS_MAX] + ("..." if len(key) > KEY_CHARACTERS_MAX else "")
    return _DoubledKeyError(f"has the key {shown!r} twice, {where}: leave one of them out")
