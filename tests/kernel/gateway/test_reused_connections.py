"""Connections to a provider that are used again: the provider may have closed one, or may have sent too much."""

import h11

from tests.kernel.gateway.scripted import Door, Hit, Line, upstream


async def test_a_request_on_a_connection_that_the_provider_has_closed_is_sent_again_once(door: Door) -> None:
    async def script(line: Line, _hit: Hit) -> None:
        if len(provider.hits) % 2:
            await line.reply(b'{"usage": {"input_tokens": 1}}')

    async with upstream(script) as provider:
        placeholder = door.admit(provider.url)
        for hits in (1, 3):
            assert (await door.ask(placeholder)).status_code == 200
            assert len(provider.hits) == hits
    assert provider.hits[1].body == provider.hits[2].body
    assert [usage.tokens for _, usage in door.counted] == [1, 1]


async def test_a_request_on_a_new_connection_is_sent_once(door: Door) -> None:
    async def script(_line: Line, _hit: Hit) -> None:
        pass

    async with upstream(script) as provider:
        assert (await door.ask(door.admit(provider.url))).status_code == 502
        assert len(provider.hits) == 1


async def test_data_after_a_response_is_no_response_to_the_next_request(door: Door) -> None:
    async def script(line: Line, _hit: Hit) -> None:
        head = line.h11.send(h11.Response(status_code=200, headers=[("content-length", "2")])) or b""
        line.h11.send(h11.Data(data=b"{}"))
        line.h11.send(h11.EndOfMessage())
        await line.stream.send_all(head + b"{}HTTP/1.1 200 \r\ncontent-length: 4\r\n\r\nevil")

    async with upstream(script) as provider:
        placeholder = door.admit(provider.url)
        assert [(await door.ask(placeholder)).text for _ in range(2)] == ["{}", "{}"]
