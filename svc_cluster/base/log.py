"""Structured logs: an event name in the past tense and facts as fields.

Bodies, headers and tokens of users never go into a log line. Levels by who acts: `error` means a
person must look (it fails any test that does not expect it), `warning` is degraded but healing,
`info` a change of state, `debug` per message.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_ROOT = "svc_cluster"

_SECRET = re.compile(r"svc[tr]_[A-Za-z0-9_-]+|(?i:\bbearer +|\bticket=)[^\s&\"\\]+")
"""What the secret of an access token and a read ticket look like, by their marks or by the words in
front of them."""


def redacted(line: str) -> str:
    """The line without secrets. No line is meant to have one; this is for the day one does."""
    return _SECRET.sub("[redacted]", line)


class Logger:
    """`log.info("leader_elected", group=3, term=7)`."""

    __slots__ = ("_context", "_logger")

    def __init__(self, logger: logging.Logger, context: dict[str, Any]) -> None:
        self._logger = logger
        self._context = context

    def bind(self, **context: Any) -> Logger:
        return Logger(self._logger, {**self._context, **context})

    def debug(self, event: str, **fields: Any) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._emit(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._emit(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._emit(logging.WARNING, event, fields)

    def error(self, event: str, *, exc_info: BaseException | None = None, **fields: Any) -> None:
        self._emit(logging.ERROR, event, fields, exc_info)

    def _emit(
        self, level: int, event: str, fields: dict[str, Any], exc_info: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(
                level, event, exc_info=exc_info, extra={"fields": {**self._context, **fields}}
            )


def get_logger(name: str, **context: Any) -> Logger:
    return Logger(logging.getLogger(f"{_ROOT}.{name}"), context)


class JsonFormatter(logging.Formatter):
    """One JSON object a line; control characters are escaped by JSON itself."""

    def __init__(self, context: Mapping[str, object] = MappingProxyType({})) -> None:
        """`context`: facts that every line has."""
        super().__init__()
        self._context = dict(context)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **self._context,
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info is not None and record.exc_info[1] is not None:
            line["exception"] = "".join(traceback.format_exception(record.exc_info[1]))
        return redacted(json.dumps(line, default=str, ensure_ascii=True))


class TextFormatter(logging.Formatter):
    """This formatter writes for people, as in `12:00:00.123 info leader_elected group=3 term=7`."""

    def __init__(self, context: Mapping[str, object] = MappingProxyType({})) -> None:
        """`context`: facts that every line has."""
        super().__init__()
        self._context = dict(context)

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {**self._context, **getattr(record, "fields", {})}
        facts = " ".join(f"{key}={value!r}" for key, value in fields.items())
        stamp = self.formatTime(record, "%H:%M:%S")
        text = f"{stamp}.{int(record.msecs):03d} {record.levelname.lower():7} {record.getMessage()}"
        if facts:
            text += " " + facts
        if record.exc_info is not None and record.exc_info[1] is not None:
            text += "\n" + "".join(traceback.format_exception(record.exc_info[1]))
        return redacted(text)


def configure(
    level: str = "info", form: str = "json", context: Mapping[str, object] = MappingProxyType({})
) -> None:
    """Send this project's log lines to standard error, each with what is in `context`. Called once,
    by the command line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(context) if form == "json" else TextFormatter(context))
    root = logging.getLogger(_ROOT)
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger().setLevel(logging.WARNING)


def set_level(level: str) -> None:
    """From now on lines of this project from this level on are written."""
    logging.getLogger(_ROOT).setLevel(level.upper())


def is_json() -> bool:
    """Whether what is said goes out in JSON; before `configure` it does not."""
    handlers = logging.getLogger(_ROOT).handlers
    return bool(handlers) and isinstance(handlers[0].formatter, JsonFormatter)
