"""Rules that change messages on their way: headers, properties and bodies that are JSON."""
