"""cachekeeper keeps compiled vLLM artifacts."""

__version__ = "0.1.0"
