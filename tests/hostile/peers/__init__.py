"""Whoever reaches a node's port: strangers, callers with the secret, and peers that lie."""
