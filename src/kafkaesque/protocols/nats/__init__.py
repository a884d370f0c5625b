"""NATS' client protocol: bytes to events and back."""
