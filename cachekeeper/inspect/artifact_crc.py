"""Checks the checksum at the head of a binary compiled artifact.

Format (torch/_inductor/standalone_compile.py, torch/utils/_appending_byte_serializer.py):
crc32 (4 bytes, big endian) of everything behind it, then an 8-byte big-endian length and the text
`CacheCompiledArtifact` or `AOTCompiledArtifact`. Other heads (PyTorch 2.8, 2.9) are not judged.
"""

import zlib
from typing import BinaryIO, Literal

ArtifactState = Literal["whole", "damaged", "unchecked"]

_CRC_BYTES = 4
_LENGTH_BYTES = 8
_MAGICS = (b"CacheCompiledArtifact", b"AOTCompiledArtifact")
_HEADS = tuple(len(magic).to_bytes(_LENGTH_BYTES, "big") + magic for magic in _MAGICS)
_HEAD_BYTES = _CRC_BYTES + max(map(len, _HEADS))
_BLOCK_BYTES = 1024 * 1024


def check_artifact(file: BinaryIO) -> ArtifactState:
    """Return whether an artifact, read from its beginning, has the checksum it names.

    `unchecked`: the head is not known, so nothing can be said. Raises OSError.
    """
    head = file.read(_HEAD_BYTES)
    body = head[_CRC_BYTES:]
    if not body.startswith(_HEADS):
        return "unchecked"
    checksum = zlib.crc32(body)
    while block := file.read(_BLOCK_BYTES):
        checksum = zlib.crc32(block, checksum)
    return "whole" if checksum == int.from_bytes(head[:_CRC_BYTES], "big") else "damaged"
