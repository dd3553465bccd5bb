"""Command line, web page and HTTP client. Stateless; only interface.offline imports the kernel."""
