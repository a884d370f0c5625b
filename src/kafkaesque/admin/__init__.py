"""The admin port: what a broker says of itself over HTTP; metrics and health so far."""
