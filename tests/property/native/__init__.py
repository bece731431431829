"""The native core against Python: the same answers, or none."""
