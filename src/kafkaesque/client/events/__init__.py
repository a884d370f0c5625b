"""Publish and subscribe: events of topics by pattern and selector, from now on."""
