"""HTTP service for an exported system: a JSON interface with dynamic batching, and a web page."""
