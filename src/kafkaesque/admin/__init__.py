"""The admin port, HTTP: metrics, health, the API of the console, and RabbitMQ's management API."""
