"""The text protocol for a person with telnet: one line in, one line out."""
