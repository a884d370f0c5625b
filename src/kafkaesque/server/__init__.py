"""Where everything is put together: configuration is read once, rooms are wired, a broker runs."""
