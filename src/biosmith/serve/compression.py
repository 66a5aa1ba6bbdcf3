"""Bodies that are compressed: known by their first bytes, as files are, and never longer than allowed when unpacked."""

from __future__ import annotations

import lzma
import zlib

GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
# Each concatenated stream costs a copy of what follows it: so many are more than tools write, and still cheap.
MOST_STREAMS = 1000
XZ_MEMORY = 128 * 2**20  # bytes; `xz -9` asks for 65 MiB


class TooLarge(Exception):
    """What is in the body is larger than allowed."""


class Damaged(Exception):
    """The body is cut, or not what its first bytes say."""


def is_compressed(body: bytes) -> bool:
    """Whether the body is gzip or xz, which no text or JSON begins like."""
    return body.startswith((GZIP, XZ))


def unpack(body: bytes, limit: int) -> bytes:
    """The content of a body of gzip or xz, be it several streams one after the other.

    Raises:
        TooLarge: it has more than `limit` bytes, or takes more memory or streams than any honest file.
        Damaged: it cannot be unpacked to its end.
    """
    magic = GZIP if body.startswith(GZIP) else XZ
    parts: list[bytes] = []
    room = limit + 1
    try:
        for _ in range(MOST_STREAMS):
            if not body.startswith(magic):
                raise Damaged("something else follows the compressed data")
            stream = (
                zlib.decompressobj(31) if magic == GZIP else lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY)
            )
            parts.append(stream.decompress(body, room))
            room -= len(parts[-1])
            if room <= 0:
                raise TooLarge(f"the body has more than {limit:,} bytes when it is unpacked")
            if not stream.eof:
                raise Damaged("the compressed data end too early")
            body = stream.unused_data.lstrip(b"\0")  # padding, which both formats may have
            if not body:
                return b"".join(parts)
    except (zlib.error, lzma.LZMAError) as error:
        if "memory" in str(error).lower():
            raise TooLarge(f"the body takes more than {XZ_MEMORY:,} bytes of memory to unpack") from error
        raise Damaged(str(error)) from error
    raise TooLarge(f"the body is of more than {MOST_STREAMS:,} compressed streams")
