"""Share groups (KIP-932): who is a member, and whose consumers read which partitions."""
