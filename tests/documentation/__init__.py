"""The blocks of the documentation: where they are, which test runs each, and how it is run."""
