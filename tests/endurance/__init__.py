"""What only time or numbers show: hours of mixed load and faults, very many of everything."""
