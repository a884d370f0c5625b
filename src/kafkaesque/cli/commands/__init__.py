"""One module per command; each has an `app` and is imported when it is the one that runs."""
