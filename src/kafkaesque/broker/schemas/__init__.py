"""The log of the schema registry, as each broker reads it and appends to it."""
