"""Principals, credentials, rules and the decisions over them, as synchronous cores."""
