"""The first hundred milliseconds of a kernel: arguments, lock, listener, discovery record. Standard
library only, no trio.

Importing the other modules (kernel.app) takes almost a second. Meanwhile this package already
answers clients, and proves that the process is their kernel."""
