"""Folder in, shards out: scanning, deciding what each file is, writing, verifying and repairing datasets."""
