"""The environment variables that decide settings."""

from pydantic import BaseModel, Field


class Environment(BaseModel, frozen=True):
    """What a variable says; None where it is unset or empty. The settings check the values."""

    project: str | None = Field(default=None, validation_alias="PLANLOOM_PROJECT")
    """The folder that questions are about; `--project` wins over it. Default: the working folder,
    or over stdio the client's first root if the working folder is in none of its roots. In the
    upstreams file it is always set."""
    upstreams: str | None = Field(default=None, validation_alias="PLANLOOM_UPSTREAMS")
    """The upstreams file; `--upstreams` wins over it. Default: `upstreams.yaml` in your
    configuration directory, else the shipped one."""
    runs: str | None = Field(default=None, validation_alias="PLANLOOM_RUNS", repr=False)
    """The directory where runs are recorded, or the `redis://` URL; wins over `runs.directory` and
    `runs.redis`."""
    fleet: str | None = Field(default=None, validation_alias="PLANLOOM_FLEET")
    """The name that servers share when they take over each other's runs; wins over `runs.fleet`."""

    # Those of `ModelSettings`, under its names.
    fast: str | None = Field(default=None, validation_alias="PLANLOOM_FAST_MODEL")
    full: str | None = Field(default=None, validation_alias="PLANLOOM_FULL_MODEL")
    backend: str | None = Field(default=None, validation_alias="PLANLOOM_BACKEND")
    host: str | None = Field(default=None, validation_alias="OLLAMA_HOST")
    url: str | None = Field(default=None, validation_alias="PLANLOOM_MODEL_URL")
    key: str | None = Field(default=None, validation_alias="PLANLOOM_MODEL_KEY", repr=False)
    warm_up: str | None = Field(default=None, validation_alias="PLANLOOM_WARM_UP")


VARIABLES = {name: str(field.validation_alias) for name, field in Environment.model_fields.items()}
"""By the names of their fields."""


TOKEN, AUTH, ALLOWED_HOSTS = "PLANLOOM_TOKEN", "PLANLOOM_AUTH", "PLANLOOM_ALLOWED_HOSTS"
OTHERS = {
    "PLANLOOM_PYTHON": "Set by Planloom for the upstreams file: the Python that it runs on.",
    TOKEN: "The tokens that HTTP callers send, with commas between them. Default, on loopback "
    "only: what `planloom token` prints.",
    AUTH: "`module:name` of a FastMCP auth provider, such as OAuth or JWT, in place of tokens.",
    ALLOWED_HOSTS: "Names by which a proxy reaches the HTTP server, with commas between them.",
}
"""The variables that decide no setting, and what they say."""
