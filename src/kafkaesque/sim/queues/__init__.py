"""Publishers and workers of queues under every fault, and what must hold of all they have seen."""
