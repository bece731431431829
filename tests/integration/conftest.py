"""Real processes, sockets, disks and stores, small enough for the suite."""
