"""NATS: its core protocol and JetStream."""
