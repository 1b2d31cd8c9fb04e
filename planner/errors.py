"""The errors Planloom raises; each message says what happened, where, and what to do."""

EMBEDDED_EXTRA = "pipx install --force '.[embedded]', in a checkout of Planloom"
"""How the runtime of the embedded models is installed. It is in no package index."""


class PlanloomError(Exception):
    """The base of every error meant for a person. Its text is complete; show it without a trace."""


class RequestError(PlanloomError):
    """The caller asked for something that cannot be: an empty prompt, an unknown tool or run."""


class Busy(PlanloomError):
    """The server has as much to do as it takes on; the text says when to come again."""

    def __init__(self, text: str, retry_after_s: int) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class ConfigError(PlanloomError):
    """`upstreams.yaml`, an option or a variable is wrong; the text has the place and the fix."""


class ModelError(PlanloomError):
    """A model call failed in a way that another try of the same call would not fix."""


class ModelUnavailable(ModelError):
    """The model server does not answer, or does not have the model."""


class ContextExceeded(ModelError):
    """The prompt does not fit the model's context window (`num_ctx`, in tokens)."""


class InvalidReply(ModelError):
    """The model's reply does not fit the schema it was asked for."""
