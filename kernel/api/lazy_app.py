"""Lazy Quart application: imported and built when the first request needs it, which takes a fifth of a second."""

from typing import cast

import trio

from kernel.api.asgi import App, Receive, Scope, Send
from kernel.api.context import Services


class LazyQuart:
    """The Quart application, once there is a request for it."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._building = trio.Lock()
        self._app: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. The first has the application built, in a thread; the others wait for the same."""
        if self._app is None:
            async with self._building:
                if self._app is None:
                    self._app = await trio.to_thread.run_sync(self._build)
        await self._app(scope, receive, send)

    def _build(self) -> App:
        from kernel.api.quart_app import build_app  # noqa: PLC0415  (takes a fifth of a second)

        return cast(App, build_app(self._services))
