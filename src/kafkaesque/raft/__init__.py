"""One consensus group as a synchronous core: step, tick, take the work that is ready."""
