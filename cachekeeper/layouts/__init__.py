"""Where each tool keeps what, read-only: names, links between families, and their structure."""
