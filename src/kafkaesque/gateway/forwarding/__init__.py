"""Passes the messages of queues on to exchanges, where an option of the queue says so."""
