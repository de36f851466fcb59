"""One file a format: how it is written and how it is read. No format imports another."""
