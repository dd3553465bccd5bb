"""The two I/O implementations of a worker: on Trio's event loop, and with a blocking poll."""
