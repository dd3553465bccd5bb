"""What one message costs the kernel: calls of Python, stats, commits, pages of the log and written bytes."""
