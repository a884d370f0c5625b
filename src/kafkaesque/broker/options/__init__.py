"""Every topic and broker option: names, types, ranges, and what is in force."""
