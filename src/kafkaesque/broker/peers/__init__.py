"""The links between brokers: who is connected, who is alive, and whether it is who it says."""
