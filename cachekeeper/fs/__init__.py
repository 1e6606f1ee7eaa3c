"""The only code that changes the disk. Paths are bytes."""
