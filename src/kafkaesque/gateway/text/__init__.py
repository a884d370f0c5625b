"""The text protocol on one side, broker commands on the other."""
