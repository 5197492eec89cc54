"""Checkpoints of others: read as data, checked against their own options, written as checkpoints of this project."""
