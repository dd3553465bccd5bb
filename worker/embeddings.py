"""Asks an endpoint of OpenAI's for embeddings: ``python -m worker.embeddings``, a request on each line of its input.

A process of its own, for the kernel imports no client of a model; the key comes with the request, never in the
environment or on the command line. Whatever goes wrong is an answer, too.
"""

import sys

import msgspec
import openai
import trio

from protocol.ipc import EmbeddingAnswer, EmbeddingRequest, Limits
from worker.models.errors import Failed
from worker.models.openai import SDK
from worker.models.sdk_client import broken


async def embed(asked: EmbeddingRequest) -> EmbeddingAnswer:
    """The vectors of the texts, or why there are none. Raises nothing."""
    try:
        with trio.fail_after(asked.seconds):
            return EmbeddingAnswer(vectors=await _vectors(asked))
    except Failed as failure:
        return EmbeddingAnswer(error=failure.text)
    except trio.TooSlowError:
        return EmbeddingAnswer(error=f"{asked.provider.name}: no answer within {asked.seconds:g} s")


async def _vectors(asked: EmbeddingRequest) -> tuple[tuple[float, ...], ...]:
    provider = asked.provider
    client = SDK.connect(provider, Limits(idle_seconds=asked.seconds))
    try:
        said = await client.embeddings.create(model=asked.model, input=list(asked.texts), encoding_format="float")
        found = {one.index: tuple(map(float, one.embedding)) for one in said.data}
        return tuple(found[number] for number in range(len(asked.texts)))
    except openai.APIResponseValidationError as error:
        raise broken(provider, error) from error
    except openai.APIError as error:
        raise SDK.failure(provider, error) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise broken(provider, ValueError("the answer is none to such a request")) from error
    finally:
        await client.close()


async def serve() -> None:
    """Answer each line of standard input by one on standard output, until there is no more."""
    decoder, encoder = msgspec.json.Decoder(EmbeddingRequest), msgspec.json.Encoder()
    while line := await trio.to_thread.run_sync(sys.stdin.buffer.readline, abandon_on_cancel=True):
        sys.stdout.buffer.write(encoder.encode(await embed(decoder.decode(line))) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    trio.run(serve)
