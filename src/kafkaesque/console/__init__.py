"""The web console: files that the admin port serves to browsers, and that know nothing but its API."""
