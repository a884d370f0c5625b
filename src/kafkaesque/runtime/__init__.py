"""The four doors opened on the real machine: sockets, files, the clock, real randomness."""
