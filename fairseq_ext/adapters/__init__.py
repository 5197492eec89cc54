"""Adapters as files, and domains that come and go: verbs on checkpoints and exported systems."""
