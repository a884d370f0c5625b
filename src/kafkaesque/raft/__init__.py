"""One consensus group: a flat state machine that takes events and returns work."""
