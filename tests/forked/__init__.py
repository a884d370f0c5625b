"""Real processes of ours, forked from one that has imported everything: a start without imports."""
