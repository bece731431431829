"""One client who does not behave, beside others who do."""
