"""POST /messages: durable, once, and refused in a way that tells what to do."""

from tests.kernel.api.house import House


async def test_a_message_to_an_agent_is_accepted_with_its_instruction(kernel: House) -> None:
    """Contracts section 4: 202 with message_id and instruction_ids."""
    sent = await kernel.ask("POST", "/messages", {"to": "alice", "text": "hello"})
    assert (sent.status, sent.json["schema"]) == (202, "awk/send/1")
    assert len(sent.json["instruction_ids"]) == 1
    shown = await kernel.ask("GET", f"/messages/{sent.json['message_id']}")
    assert shown.json["message"]["text"] == "hello"
    assert shown.json["receipts"][0]["agent"] == "alice"
