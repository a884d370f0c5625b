"""Checks of security taken out one by one, each of which some test must notice."""
