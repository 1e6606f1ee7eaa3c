"""The command line: parse, one call, hand the result to `out`. Click is imported here alone."""
