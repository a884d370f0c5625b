"""`kafkaesque doctor`: looks at a cluster that may be half dead, and says what is wrong with it."""
