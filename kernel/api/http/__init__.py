"""The REST API: one table of routes, one file of handlers per resource."""
