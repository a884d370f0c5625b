"""The Raft groups of a broker: their driver, their replicas, and who leads them."""
