"""Adapter files, and commands that add, remove and rename domains of checkpoints and exported systems."""
