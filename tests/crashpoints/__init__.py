"""SIGKILL at every write, sync, rename, unlink and truncate: the node always boots, and nothing
acknowledged is lost."""
