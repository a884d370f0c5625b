"""MQTT 3.1.1 and 5.0 at a broker: the port for devices, browsers and small services."""
