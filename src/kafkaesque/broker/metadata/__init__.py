"""The cluster's metadata: records, the state they make, and the controller's decisions."""
