"""The text of a record: sealed with its own hash, and read without its long parts. Pure."""

from __future__ import annotations

import hashlib

_SEAL = b',\n "sha256": "'
_BULK = (
    (b'\n "telemetry": {\n', b"\n },", b'\n "telemetry": null,'),
    (b'\n  "config": {\n', b"\n  },", b'\n  "config": {},'),
    (b'\n  "epochs": [\n', b"\n  ],", b'\n  "epochs": [],'),
)
"""Begin and end of what planning does not need, and what stands for it; see `without_bulk`."""


def sealed(text: str) -> str:
    """A JSON object, as `write` lays it out, with the hash of its text as the last entry."""
    body = text.rstrip().removesuffix("}").rstrip()
    digest = hashlib.sha256(body.encode("utf-8")).hexdigest()
    return f'{body}{_SEAL.decode()}{digest}"\n}}\n'


def is_sealed(content: bytes) -> bool | None:
    """Whether a file is as it was written, to the byte; None if it carries no hash."""
    body, found, rest = content.rpartition(_SEAL)
    if not found:
        return None
    return rest == hashlib.sha256(body).hexdigest().encode() + b'"\n}\n'


def without_bulk(content: bytes) -> bytes:
    """The content of a sealed file without its long parts, cut out before they are parsed.

    A line feed cannot stand inside a JSON text, and the indentation tells the depth: in a file
    that is as `write` laid it out, these places cannot be mistaken for others.
    """
    for begin, end, instead in _BULK:
        first = content.find(begin)
        last = content.find(end, first)
        if 0 <= first < last:
            content = content[:first] + instead + content[last + len(end) :]
    return content
