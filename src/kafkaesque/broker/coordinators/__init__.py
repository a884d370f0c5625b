"""Coordinators of groups and transactions: where they are, and their tables at work."""
