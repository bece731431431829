"""The node's write-ahead log. `Wal` is the only entry point."""

from svc_cluster.storage.wal.wal_settings import WalFormatError, WalSettings
from svc_cluster.storage.wal.writer import Wal

__all__ = ["Wal", "WalFormatError", "WalSettings"]
