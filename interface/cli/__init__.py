"""The command line. It holds no state: its data comes from the kernel and from files of the project."""
