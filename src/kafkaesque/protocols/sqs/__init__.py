"""Amazon SQS: JSON 1.0 and the older query protocol, errors, digests and signatures."""
