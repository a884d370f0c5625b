"""The text protocol of the project's paper, for a person with telnet: lines and commands."""
