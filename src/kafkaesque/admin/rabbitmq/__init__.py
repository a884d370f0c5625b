"""RabbitMQ's management HTTP API, as its tools and libraries ask it, under `/rabbitmq/api`."""
