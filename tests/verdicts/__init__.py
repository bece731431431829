"""Whole histories judged twice: by the checker, and by a search that shares no code with it."""
