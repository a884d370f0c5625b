"""Schemas of records: what is registered under which subject, and which change fits."""
