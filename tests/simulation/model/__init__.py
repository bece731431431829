"""An executable model of how a group changes its members, by sealed configurations."""
