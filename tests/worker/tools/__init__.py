"""The worker's own tools, each called as the loop calls it."""
