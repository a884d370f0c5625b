"""AMQP's declarations and messages as brokers keep them, for its port and for RabbitMQ's API."""
