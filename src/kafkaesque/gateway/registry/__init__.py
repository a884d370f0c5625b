"""Confluent's HTTP API for schemas on one side, the registry on the other."""
