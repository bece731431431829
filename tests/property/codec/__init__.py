"""Random and spoilt bytes for the parsers of what clients send."""
