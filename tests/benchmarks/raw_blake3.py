"""Hash every file below a directory with BLAKE3, one thread, and print how many bytes it were.

The yardstick of `verify`: the least that somebody must do who reads a root and trusts nothing.
usage: raw_blake3.py ROOT
"""

import os
import sys

import blake3

_READ_BYTES = 1 << 20


def main(root: str) -> None:
    """Hash and count."""
    buffer = bytearray(_READ_BYTES)
    view = memoryview(buffer)
    total = 0
    for directory, _, names in os.walk(root):
        for name in names:
            hasher = blake3.blake3()
            with open(os.path.join(directory, name), "rb", buffering=0) as file:
                while size := file.readinto(buffer):
                    hasher.update(view[:size])
                    total += size
            hasher.digest()
    print(total)


if __name__ == "__main__":
    main(sys.argv[1])
