"""Kafka's protocol on one side, broker commands on the other."""
