"""What brokers ask of one another and of the controller: commands, answers, and the caller."""
