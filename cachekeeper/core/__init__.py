"""Pure values and decisions: no disk, no clock, no environment."""
