"""Append-only files of a node for the bytes of large entries, each written once."""
