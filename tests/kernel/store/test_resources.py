"""Resources against a plain dict: whatever is kept where and read from wherever, by characters."""

from typing import Final

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from kernel.store.entries import INLINE_BYTES
from kernel.store.resources import STUB_CHARACTERS, create, info, newest, read, stub
from tests.kernel.store.running_store import open_store

pytestmark = pytest.mark.promise("P41")

SPACES: Final = ("dm:alice", "dm:bob", "review:main#1")
TEXTS: Final = ("a", "é日x\n" * 3, "b" * 40, "\x00\u2028\U0001f600 end")
KEEPS = st.tuples(st.just("keep"), st.sampled_from(SPACES), st.sampled_from(TEXTS), st.just(0), st.just(0))
READS = st.tuples(
    st.just("read"), st.sampled_from(SPACES), st.sampled_from(TEXTS), st.integers(0, 45), st.none() | st.integers(1, 45)
)


@given(history=st.lists(KEEPS | READS, max_size=12))
def test_any_history_reads_what_was_kept_and_nothing_else(history: list[tuple[str, str, str, int, int | None]]) -> None:
    async def play() -> None:
        ids: dict[tuple[str, str], str] = {}
        async with open_store(":memory:") as store:
            for what, space, text, offset, limit in history:
                if what == "keep":
                    kept = await store.writer.commit(create, space, text, "text/plain")
                    assert ids.setdefault((space, text), kept.id) == kept.id
                    assert (kept.characters, kept.bytes) == (len(text), len(text.encode()))
                    continue
                for (owner, said), name in ids.items():
                    found = store.reader.now(read, name, space, offset, limit)
                    if owner != space:
                        assert found is None
                        continue
                    assert found is not None
                    end = len(said) if limit is None else offset + limit
                    assert found.content == said[offset:end]
                    assert found.next == (end if end < len(said) else None)
            assert len(set(ids.values())) == len(ids)
            for space in SPACES:
                mine = [name for (owner, _), name in ids.items() if owner == space]
                listed = store.reader.now(newest, space, 100)
                assert ([one.id for one in listed.resources], listed.total) == (mine[::-1], len(mine))
            assert all(store.reader.now(info, name) is not None for name in ids.values())

    trio.run(play)


@given(st.text(alphabet="aé日\n\r\x0b\x00`#@>[]", max_size=3000))
def test_a_stub_is_short_begins_as_its_text_does_and_names_it(text: str) -> None:
    made = stub(text, "4f1c")
    first, _, last = made.rpartition("\n[only the beginning of ")
    assert text.startswith(first)
    assert len(first) <= STUB_CHARACTERS
    assert len(made.encode()) < INLINE_BYTES
    assert f"{len(text):,} characters in" in last
    assert "resource:4f1c;" in last
