"""BLAKE3 digests as 64 lower-case hex digits, the only digest of the store.

The source of the algorithm is the BLAKE3 paper (O'Connor, Aumasson, Neves, Wilcox-O'Hearn 2020);
`b3sum` prints the same digits.
"""

import re

from blake3 import blake3

from cachekeeper.core.errors import FormatError

ALGORITHM = "blake3"
DIGEST_HEX = 64
_DIGEST = re.compile(r"[0-9a-f]{64}")

Hasher = blake3


def digest_of(data: bytes) -> str:
    """Return the digest of bytes, 64 hex digits."""
    return blake3(data).hexdigest()


def parse_digest(text: str) -> str:
    """Return `text` if it is a whole digest; raises FormatError."""
    if not _DIGEST.fullmatch(text):
        raise FormatError(f"{text!r} is not a BLAKE3 digest")
    return text
