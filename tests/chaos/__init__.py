"""Chaos on real processes: whole clusters under drawn faults, judged by the checker."""
