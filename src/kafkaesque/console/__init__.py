"""The web console: files that the admin port serves to browsers; they know its API alone."""
