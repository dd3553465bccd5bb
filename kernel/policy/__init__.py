"""Pure scheduling decisions: no clock, no storage, no I/O. Callers pass in all inputs."""
