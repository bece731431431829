"""What the leader knows of encryption: which stream a batch was sealed for, and how far a cipher
reaches. It has no key and looks at no record; that a batch is sealed is the gateway's word."""

from __future__ import annotations

from svc_cluster.base.errors import InvalidError, KeyRequiredError, SealMismatchError
from svc_cluster.model.cipher import StreamIdentity, seq_num_max
from svc_cluster.stream import provision_rules
from svc_cluster.stream.effects import View
from svc_cluster.stream.rows import StreamState


def open_sealed(view: View, name: str, sealed_for: StreamIdentity | None) -> StreamState:
    """The stream that a batch sealed for `sealed_for` (None: plain) may go into.

    Raises KeyRequiredError for a plain batch where records are encrypted, SealMismatchError for a
    batch that was sealed for another stream or cipher, and what `provision_rules.open_stream`
    raises.
    """
    stream = view.stream_by_name(name)
    if stream is not None:
        if sealed_for is None:
            if stream.cipher is not None:
                raise KeyRequiredError.of(stream.cipher)
        elif sealed_for.stream_id != stream.stream_id or sealed_for.cipher != stream.cipher:
            raise SealMismatchError("another stream has taken the name")
    return provision_rules.open_stream(view, name)


def check_room(stream: StreamState, record_count: int) -> None:
    """Raises InvalidError where the cipher is not good for so many records."""
    last = stream.tail_seq_num + record_count - 1
    if last > seq_num_max(stream.cipher):
        raise InvalidError(
            f"a stream with {stream.cipher} takes records up to sequence number "
            f"{seq_num_max(stream.cipher)}"
        )
