"""Membership by gossip: who is in the cluster, who is suspected or dead, and what each tells."""
