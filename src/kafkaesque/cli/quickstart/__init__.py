"""The main job, to be watched: real data through three brokers, one of which is killed."""
