"""One verb a file: functions that take the Keeper. What changes something plans first."""
