"""What a client and the server say to each other, noted on its way without changing it."""

import json
import shlex
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


@dataclass(frozen=True)
class Wire:
    """The messages of one or more connections, in files of this folder."""

    folder: Path

    def tapped(self, command: Sequence[str]) -> list[str]:
        """The command of a stdio server, with a tap on both of its ends."""
        said, heard = (shlex.quote(str(file)) for file in (self._said, self._heard))
        script = f'tee -a {said} | "$@" | tee -a {heard}'
        return ["sh", "-c", script, "sh", *command]

    @contextmanager
    def forwarded(self, port: int) -> Iterator[int]:
        """A port that leads to this one, with a tap on both directions."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threads: list[threading.Thread] = []
            opened: list[socket.socket] = []

            def pump(source: socket.socket, target: socket.socket, file: Path) -> None:
                with suppress(OSError), file.open("ab", buffering=0) as noted:
                    while data := source.recv(65_536):
                        noted.write(data)
                        target.sendall(data)
                for each in (source, target):
                    with suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)

            def accept() -> None:
                with suppress(OSError):
                    while True:
                        client = listener.accept()[0]
                        server = socket.create_connection(("127.0.0.1", port))
                        number = len(opened)
                        opened.extend((client, server))
                        for source, target, file in (
                            (client, server, self._said),
                            (server, client, self._heard),
                        ):
                            own = file.with_suffix(f".{number}")
                            thread = threading.Thread(target=pump, args=(source, target, own))
                            thread.start()
                            threads.append(thread)

            accepting = threading.Thread(target=accept)
            accepting.start()
            try:
                yield int(listener.getsockname()[1])
            finally:
                with suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
                accepting.join()
                for each in opened:
                    with suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)
                for thread in threads:
                    thread.join()
                for each in opened:
                    each.close()

    @property
    def said(self) -> list[dict[str, Any]]:
        """The client's messages."""
        return list(_messages(self._said))

    @property
    def heard(self) -> list[dict[str, Any]]:
        """The server's messages."""
        return list(_messages(self._heard))

    @property
    def protocol(self) -> str:
        """The version of the protocol that was agreed on."""
        for message in self.heard:
            result = message.get("result", {})
            if "protocolVersion" in result:
                return str(result["protocolVersion"])
        (version,) = {
            message["params"]["_meta"][META_VERSION]
            for message in self.said
            if message.get("method") == "tools/call"
        }
        return str(version)

    @property
    def capabilities(self) -> Any:
        """What the client says that it can."""
        params = next(
            message["params"]
            for message in self.said
            if message.get("method") in ("initialize", "tools/call")
        )
        old: dict[str, Any] | None = params.get("capabilities")
        return params["_meta"][META_CAPABILITIES] if old is None else old

    @property
    def asked_by(self) -> str | None:
        """How the client was asked for approval; None if it was not."""
        if any(message.get("method") == "elicitation/create" for message in self.heard):
            return "elicitation"
        if any("inputRequests" in message.get("result", {}) for message in self.heard):
            return "input required"
        return None

    @property
    def _said(self) -> Path:
        return self.folder / "said"

    @property
    def _heard(self) -> Path:
        return self.folder / "heard"


def _messages(file: Path) -> Iterator[dict[str, Any]]:
    """The JSON-RPC messages in a file and its likes: lines, event streams, bodies of requests."""
    decoder = json.JSONDecoder()
    for each in sorted(file.parent.glob(f"{file.name}*")):
        for line in each.read_text("utf-8", "replace").splitlines():
            text = line.removeprefix("data: ")
            if text.startswith("{"):
                message, _ = decoder.raw_decode(text)
                if "jsonrpc" in message:
                    yield message
