"""Lines of web servers, syslog and dpkg as rows, and an index in which they are found again."""
