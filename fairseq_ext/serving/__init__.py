"""An exported system over HTTP: a JSON service with dynamic batches, and a page to try it."""
