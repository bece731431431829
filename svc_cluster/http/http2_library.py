"""The h2 library as this server sets it up, and what it says on its own beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import AllowedStreamIDs, H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import StreamClosedError
from h2.settings import SettingCodes, Settings
from h2.stream import H2Stream
from hyperframe.frame import GoAwayFrame, SettingsFrame, WindowUpdateFrame

from svc_cluster.http.http2_limits import HEADER_LIST_BYTES_MAX, STREAMS_MAX

STREAM_WINDOW_BYTES: Final = 65535
"""What a client may send of one body before there is somebody to read it. It is what the protocol
begins with: a client that has not heard our settings yet counts with it, and less would end the
connections of all who send at once."""
STREAM_WINDOW_BYTES_READ: Final = 256 * 1024
"""The same once it is read on."""
CONNECTION_WINDOW_BYTES: Final = 65535
"""The same of all bodies of one connection: what the protocol begins with, which is the least."""
CONNECTION_WINDOW_BYTES_FAST: Final = 512 * 1024
"""The same of a connection that sends fast: see intake.py."""

_ENCODER_TABLE_BYTES_MAX: Final = 4096
"""Whatever the client allows: the table is our memory."""
_UNCHECKED_STREAMS: Final = 2**31 - 1


class _Stream(H2Stream):
    def _initialize_content_length(self, headers: Iterable[Any]) -> None:
        """Any length is expected."""


class Library(H2Connection):
    """This is H2Connection without the library's check of a body against its content-length. That
    check ends the whole connection; `http2_stream` checks each by itself. The windows of a
    connection and of its streams are opened apart: what one body is kept waiting for is nothing to
    the others."""

    def _begin_new_stream(self, stream_id: int, allowed_ids: AllowedStreamIDs) -> H2Stream:
        stream = super()._begin_new_stream(stream_id, allowed_ids)
        stream.__class__ = _Stream
        return stream

    def open_connection(self, size: int) -> None:
        """All streams together may send so much more, as soon as it is worth a frame."""
        increment = self._inbound_flow_control_window_manager.process_bytes(size)
        if increment:
            self._prepare_for_sending([WindowUpdateFrame(0, window_increment=increment)])

    def open_stream(self, stream_id: int, size: int) -> None:
        """The same of one stream, if it is still open."""
        with contextlib.suppress(StreamClosedError):
            stream = self._get_stream_by_id(stream_id)
            if stream.open:
                self._prepare_for_sending(stream.acknowledge_received_data(size))

    def widen_stream(self, stream_id: int) -> None:
        """Somebody reads it."""
        with contextlib.suppress(StreamClosedError):
            if self._get_stream_by_id(stream_id).open:
                more = STREAM_WINDOW_BYTES_READ - STREAM_WINDOW_BYTES
                self.increment_flow_control_window(more, stream_id)


def open_library() -> tuple[Library, bytes]:
    """A connection of the server's side, and the bytes with which the server begins.

    Headers are checked by `http2_head`, which refuses one request where the library would end
    the connection; the number of streams by the connection, for the same reason.
    """
    library = Library(
        H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_inbound_headers=False,
            normalize_inbound_headers=False,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    library.local_settings = Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: _UNCHECKED_STREAMS,
            SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
            SettingCodes.MAX_HEADER_LIST_SIZE: 2 * HEADER_LIST_BYTES_MAX,
        },
    )
    library.initiate_connection()
    library.clear_outbound_data_buffer()
    told = SettingsFrame(
        settings={
            SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS_MAX,
            SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
            SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_LIST_BYTES_MAX,
        }
    )
    return library, told.serialize() + library.data_to_send()


def bound_encoder(library: H2Connection) -> None:
    """After the client has changed its settings."""
    encoder = library.encoder
    if encoder.header_table_size > _ENCODER_TABLE_BYTES_MAX:
        encoder.header_table_size = _ENCODER_TABLE_BYTES_MAX


def farewell(library: H2Connection, code: ErrorCodes, why: str = "") -> bytes:
    """A GOAWAY frame. Not by way of the library, which would send nothing after it."""
    frame = GoAwayFrame(
        last_stream_id=library.highest_inbound_stream_id,
        error_code=code,
        additional_data=why.encode(),
    )
    return frame.serialize()
