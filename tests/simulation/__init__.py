"""The whole cluster in one process, in virtual time, replayable from a seed."""
