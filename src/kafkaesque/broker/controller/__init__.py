"""The controller's group on a broker: its log, its voters, and the way to whoever leads it."""
