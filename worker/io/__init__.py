"""The waits of a worker in two ways: on Trio's event loop, and by a blocking poll without any."""
