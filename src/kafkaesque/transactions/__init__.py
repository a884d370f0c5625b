"""Producers told apart: producer ids, epochs that fence, sequences that reveal a repetition."""
