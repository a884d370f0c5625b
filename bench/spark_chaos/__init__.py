"""Kills everything that a Spark query from topic to topic consists of, and counts its results."""
