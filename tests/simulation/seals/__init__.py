"""Raft groups that change their members: real engines, seals, learners and damaged disks."""
