"""What every port needs, once: limits, pausing, drain, idle sweep, metering, who is connected."""
