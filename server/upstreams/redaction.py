"""Removes the operator's secrets from texts, so that no log, event, report or prompt shows them.

Not every value that `upstreams.yaml` takes from the environment is a secret: `LOG_LEVEL` may be
`info`, and hiding that word in every result would spoil the results. So an upstream's texts are
searched for recognisable secrets only, and texts about it (errors, state) for all of its values.
docs/security.md says what this cannot hide.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, urlsplit

from server.config import UpstreamSettings
from server.variables import HIDDEN

MIN_TOKEN_CHARS = 16
"""In characters: a value of this length without a space counts as a token, whatever its name."""
_MIN_PASSWORD_CHARS = 6
_MIN_ENCODED_CHARS = 8
_MIN_BASE64_CHARS = 10


_PATH = re.compile(r"^(?:/[\w.-]*/|/[a-z]+$|[\\~])|://")
"""What a value with the name of a secret may be instead; Base64 may begin with a slash, too."""
_PERCENT = re.compile(r"%[0-9A-F]{2}")


class Redactor:
    """Removes the secrets of all upstreams from the texts of one of them."""

    def __init__(
        self, everyone: Iterable[UpstreamSettings], own: UpstreamSettings | None = None
    ) -> None:
        """`own`: the upstream whose texts these are; None for texts of ours."""
        self._own = own
        self.know(everyone)

    def know(self, everyone: Iterable[UpstreamSettings]) -> None:
        """Redact the secrets of these upstreams from now on."""
        likely = {secret for each in everyone for secret in recognisable(each)}
        self._in_output = _pattern(likely)
        self._in_messages = _pattern(likely | self._own.secrets if self._own else likely)

    def redact_output(self, text: str) -> str:
        """A text of the upstream: a result, a description."""
        return self._in_output.sub(HIDDEN, text)

    def redact_message(self, text: str) -> str:
        """A text about the upstream: an error, the end of its log."""
        return self._in_messages.sub(HIDDEN, text)


def recognisable(upstream: UpstreamSettings) -> Iterator[str]:
    """The secrets that are unlikely to be an ordinary word or a path."""
    for secret in upstream.secrets:
        for part in {secret, *secret.split()}:  # of `Bearer …`, the second
            if _is_token(part) or (secret in upstream.credentials and _is_password(secret)):
                yield part
        if password := _password_in(secret):
            yield password


def _is_token(value: str) -> bool:
    return len(value) >= MIN_TOKEN_CHARS and not re.search(r"\s|^[/\\~]|^[A-Za-z]:\\|://", value)


def _is_password(value: str) -> bool:
    """Whether the value is more than a word: `hunter2` is, `postgres` is not."""
    kinds = (str.isalpha, str.isdigit, lambda each: not each.isalnum())
    mixed = sum(any(map(kind, value)) for kind in kinds) > 1
    return len(value) >= _MIN_PASSWORD_CHARS and mixed and not _PATH.search(value)


def _password_in(value: str) -> str | None:
    """The password of a URL such as `postgres://user:password@host`."""
    try:
        password = urlsplit(value).password if "://" in value else None
    except ValueError:
        return None
    return password if password and len(password) >= _MIN_PASSWORD_CHARS else None


def _pattern(secrets: Iterable[str]) -> re.Pattern[str]:
    """Matches each of them in every spelling; matches nothing if there are no secrets."""
    found = {_expression(secret) for secret in secrets}
    for secret in secrets:
        found |= {re.escape(spelling) for spelling in _spellings(secret)}
    return re.compile("|".join(sorted(found, key=len, reverse=True)) or r"(?!)")


def _expression(secret: str) -> str:
    """Matches a short secret as a whole word only, and its lines with any ends."""
    whole = r"\r?\n".join(map(re.escape, re.split(r"\r?\n", secret)))
    return whole if len(secret) >= MIN_TOKEN_CHARS else rf"(?<!\w){whole}(?!\w)"


_IN_HTML = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "&<>"})


def _spellings(secret: str) -> set[str]:
    """The secret in JSON (also by PHP and Go), in URLs (also by JavaScript), in hex, in Base64."""
    if len(secret) < _MIN_ENCODED_CHARS:
        return set()
    data = secret.encode("utf-8", "replace")
    spelled = {json.dumps(secret, ensure_ascii=ascii)[1:-1] for ascii in (True, False)}
    spelled |= {each.replace("/", "\\/") for each in spelled}
    spelled |= {each.translate(_IN_HTML) for each in spelled}
    in_urls = {quote(data), quote(data, safe=""), quote(data, safe="!'()*"), quote_plus(data)}
    spelled |= in_urls | {_PERCENT.sub(lambda hex: hex[0].lower(), each) for each in in_urls}
    spelled |= {data.hex(), data.hex().upper()}
    for before in range(3):
        # What depends on the bytes before and after is left out.
        encoded = base64.b64encode(bytes(before) + data).decode()
        inner = encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(inner) >= _MIN_BASE64_CHARS:
            spelled |= {inner, inner.replace("+", "-").replace("/", "_")}
    return spelled - {secret}
