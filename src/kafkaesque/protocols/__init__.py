"""Wire protocols: bytes to events and back, each in a room of its own, with no state of record."""
