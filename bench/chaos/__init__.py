"""A cluster of real processes, everything that goes wrong with machines, and what must hold."""
