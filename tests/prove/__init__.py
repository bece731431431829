"""Long runs in turns until a time is over, their records, and the page that is written of them."""
