"""The command line: words in, text or JSON out, an exit code. Holds no state; all it knows it asks the kernel."""
