"""Amazon SQS on one side, the broker's queues on the other."""
