"""The Raft groups alone in virtual time, under crashes, slow disks and bad networks, by seed."""
