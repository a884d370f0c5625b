"""JetStream: streams that are topics, consumers that are queues over them."""
