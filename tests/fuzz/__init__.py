"""Every parser under inputs that a coverage-guided fuzzer, or chance, makes of kept ones."""
