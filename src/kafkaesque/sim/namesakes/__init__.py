"""Transactions and groups that use a topic which is deleted and made again under its name."""
