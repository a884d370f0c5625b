"""Partitions on a broker: appends, reads, producers' state; and the way to those led elsewhere."""
