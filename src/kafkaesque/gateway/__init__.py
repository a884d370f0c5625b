"""One adapter per protocol: its events become broker commands, completions become its answers."""
