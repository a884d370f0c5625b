"""Rules from any producer's form of a message to a canonical one, and on to any consumer's."""
