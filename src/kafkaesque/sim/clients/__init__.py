"""Clients that speak Kafka's protocol in the simulator, and write down what they saw."""
