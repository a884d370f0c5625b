"""Measures Kafkaesque, and Apache Kafka beside it, with the same clients in the same run."""
