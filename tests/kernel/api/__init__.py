"""Tests of the API, over real sockets and a real store."""
