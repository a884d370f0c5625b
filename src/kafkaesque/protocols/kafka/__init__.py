"""The Kafka protocol: frames, requests and responses, all versions, as typed values."""
