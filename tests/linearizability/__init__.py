"""Histories of what clients saw, and the check that one order of effects explains them all."""
