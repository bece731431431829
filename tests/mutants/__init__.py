"""Bugs that were planted once, each with the test that notices it; `python -m tests.mutants`."""
