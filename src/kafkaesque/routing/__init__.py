"""Which queues and subscribers a message goes to: names, interest, exchanges, filters and rules."""
