from collections.abc import Callable

SOURCE_DIGEST: str

def cut_stored(
    batch: tuple[bytes, int, int, int, int, bool, bool],
    start_seq_num: int,
    count_max: int | None,
    metered_bytes_max: int | None,
    until_ms: int | None,
    from_ms: int,
    /,
) -> tuple[int, int, int, int, int, int, int] | None: ...
def encode_append(
    body: bytes, is_base64: bool, /
) -> tuple[bytes, int, int, int | None, int, int | None, int | None, str | None] | None: ...
def encode_read(
    batches: tuple[tuple[bytes, int, int, int, int, bool, bool], ...],
    form: int,
    start_seq_num: int,
    count_max: int | None,
    metered_bytes_max: int | None,
    until_ms: int | None,
    from_ms: int,
    /,
) -> tuple[bytes, int, int, int, int, int] | None: ...

class _Syncs: ...

def sync_close(syncs: _Syncs, /) -> None: ...
def sync_open(eventfd: int, failed: Callable[[int], None], /) -> _Syncs: ...
def sync_submit(syncs: _Syncs, writes: list[tuple[int, int, bytes]], /) -> None: ...
def sync_take(syncs: _Syncs, /) -> list[tuple[float, float, int]]: ...
def sync_wait(syncs: _Syncs, /) -> None: ...
