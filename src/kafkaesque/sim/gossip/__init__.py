"""Membership alone in a simulated world: the real cores, and a network of datagrams."""
