"""API of the kernel: REST, SSE and MCP over HTTP on one loopback socket.

This layer authenticates the caller, turns bytes into typed requests, makes one kernel call, and turns the outcome
into bytes. It decides nothing: a refusal of the rule becomes the caller's 4xx here.
"""
