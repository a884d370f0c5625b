"""Clients of the text protocol, and of the admin port, and what is wrong with what they get."""
