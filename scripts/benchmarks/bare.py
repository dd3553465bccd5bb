"""Reference for HTTP rates: a Hypercorn server under Trio that only decodes requests. Prints its port."""

import json
from typing import Any

import hypercorn.trio
import trio
from hypercorn.config import Config


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Read a JSON body and answer with its length."""
    if scope["type"] == "lifespan":
        for phase in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{phase}.complete"})
        return
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event["body"], event["more_body"]
    reply = json.dumps({"length": len(json.loads(body))}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(reply)).encode())]
    await send({"type": "http.response.start", "status": 202, "headers": headers})
    await send({"type": "http.response.body", "body": reply})


async def main() -> None:
    """Serve until killed."""
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.keep_alive_max_requests = 1_000_000
    config.loglevel = "WARNING"
    async with trio.open_nursery() as nursery:
        (address,) = await nursery.start(hypercorn.trio.serve, answer, config)
        print(address.rpartition(":")[2], flush=True)


if __name__ == "__main__":
    trio.run(main)
