"""Topics as streams of records: a producer, a consumer and transactions, over librdkafka."""
