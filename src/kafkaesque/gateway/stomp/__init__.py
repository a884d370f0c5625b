"""STOMP: what its frames say becomes commands for the broker, and answers become frames."""
