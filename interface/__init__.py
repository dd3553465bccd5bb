"""Talks to people: stateless, speaks HTTP like any other client. It never imports the kernel."""
