"""The deterministic simulation: the kernel's own services in a world that a seed makes and breaks."""
