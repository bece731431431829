"""Damage to real data directories: found, never served, and repaired."""
