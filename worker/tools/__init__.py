"""The worker's own tools, one module each, for the working directory. The kernel has all other tools."""
