"""The four doors opened on a simulated machine: a cluster, its faults and its checkers."""
