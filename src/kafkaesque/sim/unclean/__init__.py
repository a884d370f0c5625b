"""A topic that goes on with what is left of it: what unclean elections may cost, and what not."""
