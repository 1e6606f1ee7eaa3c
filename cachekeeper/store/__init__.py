"""The content-addressed store: objects and records. Format: docs/design/store-format.md."""
