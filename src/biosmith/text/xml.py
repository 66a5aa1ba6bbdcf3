"""XML read one element at a time, in constant memory and without trusting the file.

No DTD is loaded, no entity is expanded (neither external nor from an internal subset), nothing is fetched, and the
limits of libxml2 on depth and on the size of one text (10 MB) stay on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO, Any, cast

from lxml import etree
from lxml.etree import _Element as Element

from biosmith.errors import BadInput
from biosmith.text.files import BROKEN

CHUNK = 1 << 16
_SAFE: dict[str, Any] = {"load_dtd": False, "no_network": True, "resolve_entities": False, "huge_tree": False}
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_PROLOG = re.compile(r"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^<>\[]*(?:\[.*?\]\s*)?>)", re.DOTALL)
_ROOT = re.compile(r"\s*<([\w.:-]+)[\s/>]")


class XmlSource:
    """The bytes of an XML file, with a look at its root element.

    White space before the XML declaration, an error to the parser and common in files made by hand, is left out.

    Attributes:
        root: local name of the root element; None if the file does not begin an XML document.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        # `read1` gives what there is before the error of a stream that is cut; `read` would lose it.
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self._head = b""
        self.root: str | None = None
        while self.root is None and len(self._head) < CHUNK and (data := self._read(CHUNK)):
            self._head = (self._head + data).removeprefix(b"\xef\xbb\xbf").lstrip()
            self.root = root_name(self._head)

    def read(self, size: int) -> bytes:
        """At most `size` bytes, none at the end."""
        data = self._head[:size] or self._read(size)
        self._head = self._head[size:]
        return data


def elements(source: IO[bytes] | XmlSource, tags: tuple[str, ...], file: str) -> Iterator[Element]:
    """Yield each finished element with one of the names; it and what came before it are forgotten afterwards.

    An element inside another one of the names is left to that one.

    Args:
        source: bytes in any encoding that the file declares.
        tags: names, as "{namespace}name", or "{*}name" for any namespace.
        file: name of the file, for the error.

    Raises:
        BadInput: the XML ends too early or is not well-formed; all complete elements before that place were yielded.
    """
    source = source if isinstance(source, XmlSource) else XmlSource(source)
    try:
        for _, element in etree.iterparse(cast("IO[bytes]", source), events=("end",), tag=tags, **_SAFE):
            node, parent = element, element.getparent()
            if parent is not None and parent.tag in tags:
                continue  # a part of an element that is still to come
            yield element
            element.clear(keep_tail=False)
            while parent is not None:
                while parent[0] is not node:
                    del parent[0]
                node, parent = parent, parent.getparent()
    except etree.XMLSyntaxError as error:
        raise _broken(file, error) from error


def children(source: XmlSource, file: str) -> Iterator[Element]:
    """Yield each finished child of the root element; it is forgotten afterwards.

    The same as `elements` for a flat file of many records, and a fifth faster: the parser reports the root only,
    and the children are taken from it after each piece of the file.

    Raises:
        BadInput: as `elements`.
    """
    parser = etree.XMLPullParser(events=("start",), tag=f"{{*}}{source.root}", **_SAFE)
    root: Element | None = None
    data = last = b""
    try:
        while data := source.read(CHUNK):
            parser.feed(data)
            root = root if root is not None else _first(parser)
            if root is not None:
                yield from _take(root, len(root) - 1)  # the last one may go on in the next piece
            last = last[-CHUNK:] + data
        parser.close()
    except etree.XMLSyntaxError as error:
        root = root if root is not None else _first(parser)
        if root is not None and len(root):
            cut = b"" if data else last  # at the end of the file, and not in the middle of a piece
            has_ended = bool(data) and "Extra content" in (error.msg or "")  # after the root
            yield from _take(root, len(root) - (not (has_ended or _is_complete(root[-1], cut))))
        raise _broken(file, error) from error
    except BROKEN:  # the compression, where the last child may have come whole
        if root is not None and len(root):
            yield from _take(root, len(root) - (not _is_complete(root[-1], last)))
        raise
    if root is not None:
        yield from _take(root, len(root))


def _is_complete(child: Element, cut: bytes) -> bool:
    """Whether the last child ended before the XML broke off; `cut` is what came before, if that was the end."""
    if child.tail is not None or not isinstance(child.tag, str):
        return True
    name = etree.QName(child).localname.encode()
    return cut.rfind(b"</" + name + b">") > cut.rfind(b"<" + name)


def _first(parser: etree.XMLPullParser) -> Element | None:
    return next((cast(Element, element) for _, element in parser.read_events()), None)


def _take(root: Element, count: int) -> Iterator[Element]:
    if count > 0:
        for child in islice(root, count):
            if isinstance(child.tag, str):
                yield child
        del root[0:count]


def root_name(head: bytes) -> str | None:
    """Local name of the root element, from the first bytes of a file; None if they do not begin an XML document."""
    encoding = "utf-8"
    for mark, name in _BOMS:
        if head.startswith(mark):
            head, encoding = head[len(mark) :], name
            break
    else:
        if head[:4] in (b"<\0?\0", b"\0<\0?"):
            encoding = "utf-16-le" if head[:1] == b"<" else "utf-16-be"
    if encoding == "utf-8" and head.lstrip()[:1] != b"<":
        return None
    text = head.decode(encoding, errors="replace")
    position = 0
    while (match := _PROLOG.match(text, position)) is not None:
        position = match.end()
    root = _ROOT.match(text, position)
    return root[1].rpartition(":")[2] if root else None


def _broken(file: str, error: etree.XMLSyntaxError) -> BadInput:
    """The reason is the same for all files that break in one way, for reasons are counted; the value says where."""
    message = (error.msg or "no content").split(", line")[0]
    where = f"{message}, line {error.lineno}" if error.lineno else None
    return BadInput(file, "broken XML: " + re.sub(r": .* line \d.*", "", message), value=where)
