"""API of the kernel: REST, SSE and MCP over HTTP on one loopback socket.

This layer authenticates the caller, decodes typed requests, makes one kernel call for each, and
encodes the result. It decides nothing: if a rule of the kernel refuses a call, the response is 4xx.
"""
