"""How a process becomes a broker of its cluster: registration, identity, gossip."""
