"""Import and export of checkpoints: read as data and checked against their own options, or written for other tools."""
