"""The errors Planloom raises; each message says what happened, where, and what to do."""

EMBEDDED_EXTRA = "pipx install --force '.[embedded]', in a checkout of Planloom"
"""How to install the runtime of the embedded models. No package index has it."""


class PlanloomError(Exception):
    """The base of every error whose text says all that a person has to know."""


class RequestError(PlanloomError):
    """The caller asked for something impossible: an empty prompt, an unknown tool or run."""


class Busy(PlanloomError):
    """The server has as much to do as it accepts; the text says when to try again."""

    def __init__(self, text: str, retry_after_s: int) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class ConfigError(PlanloomError):
    """`upstreams.yaml`, an option or a variable is wrong; the text has the place and the fix."""


class ModelError(PlanloomError):
    """A model call failed, and would fail again."""


class ModelUnavailable(ModelError):
    """The model server does not answer, or does not have the model."""


class ContextExceeded(ModelError):
    """The prompt does not fit the model's context window (`num_ctx`, in tokens)."""


class InvalidReply(ModelError):
    """The model's reply does not fit the schema it was asked for."""
