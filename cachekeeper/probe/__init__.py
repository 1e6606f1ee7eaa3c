"""What is around: processes that use a cache, and where a snapshot was made. Reads only."""
