"""The admin API: what a cluster is and does, as typed JSON, from any of its brokers."""
