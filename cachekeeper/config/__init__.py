"""Where things are: from options, the environment and the passwd entry, as values."""
