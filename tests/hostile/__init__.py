"""Clients, peers and machines that do not behave: what they cost the others stays within bounds.
The same scenes at HOSTILE_SCALE times their size are `make hostile`."""
