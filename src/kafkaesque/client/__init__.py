"""The Python client: queues, streams, and publish and subscribe; synchronous and asyncio."""
