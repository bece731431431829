"""Programs of others, unmodified, against a cluster; what they found is written into docs/."""
