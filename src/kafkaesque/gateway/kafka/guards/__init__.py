"""What clients may ask for: one guard for each API, before its handler begins.

A guard takes out of a request what its client has no right to, lets the handler do the rest, and
puts the refusals into the answer. So a handler sees nothing that its client may not have.
"""
