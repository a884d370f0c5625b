"""Consumer groups: who is a member, who reads which partition, how far each group has come."""
