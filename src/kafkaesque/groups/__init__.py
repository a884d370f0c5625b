"""Consumer-group coordination and committed offsets, as synchronous cores that return work."""
