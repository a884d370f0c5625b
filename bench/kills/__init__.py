"""Brokers killed and paused at random under load, and what must hold afterwards."""
