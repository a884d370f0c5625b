"""What makes one broker: partitions, the driver of their Raft groups, the controller, placement."""
