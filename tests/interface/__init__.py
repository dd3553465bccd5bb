"""The interface against a scripted kernel, and against the machine's real awk."""
