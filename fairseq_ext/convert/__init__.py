"""Checkpoints to and from others: read as data and checked against their own options, or written for their tools."""
