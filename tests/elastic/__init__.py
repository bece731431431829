"""A cluster that grows, loses a node, shrinks and is restarted under load, as operators do it."""
