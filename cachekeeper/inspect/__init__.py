"""Reads inside artifacts; never unpickles, imports or executes what is kept."""
