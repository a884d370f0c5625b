"""Keys and values as people read them: JSON made of bytes, by a schema or without one."""
