"""Messages to subscribers that are connected now, on whatever broker."""
