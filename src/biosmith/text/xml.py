"""XML read one element at a time, in constant memory and without trusting the file.

No DTD is loaded, no entity is expanded (neither external nor from an internal subset), nothing is fetched, and the
limits of libxml2 on depth and on the size of one text (10 MB) stay on. In a file of records (`records`), one that is
broken costs itself alone; one of more than 128 MB counts as broken.
"""

from __future__ import annotations

import codecs
import contextlib
import itertools
import re
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO, Any, cast

import numpy as np
from lxml import etree
from lxml.etree import _Element as Element

from biosmith.errors import BadInput
from biosmith.text.files import BROKEN

CHUNK = 1 << 16
STALLED = 3  # records begun and none finished; a healthy file has one, and for a moment two
LONGEST_PROLOG = 1 << 20  # bytes before the first record; a file with more is not gone on with after an error
LONGEST_PREFIX = 32  # characters of a namespace prefix before the name of a record
LONGEST_RECORD = 1 << 27  # bytes of one record at most; what is longer has lost its end, and is broken
_SAFE: dict[str, Any] = {"load_dtd": False, "no_network": True, "resolve_entities": False, "huge_tree": False}
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PROLOG = re.compile(r"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^<>\[]*(?:\[.*?\]\s*)?>)", re.DOTALL)
_ENCODING = re.compile(rb"""(<\?xml\s[^<>]*?)\s+encoding\s*=\s*(?:"[^"]*"|'[^']*')""")
_LINE_END = ord("\n")
_ROOT = re.compile(r"\s*<([\w.:-]+)[\s/>]")
_PROLOG_BYTES, _ROOT_BYTES = (re.compile(p.pattern.encode(), p.flags & re.DOTALL) for p in (_PROLOG, _ROOT))


class XmlSource:
    """The bytes of an XML file, with a look at its root element.

    White space before the XML declaration, an error to the parser and common in files made by hand, is left out. A
    document type is put in where there is none: without one the parser takes `&alpha;` for an error, and with one for
    an entity of a DTD that it was told not to load. UTF-16 is given as UTF-8, in which all files are looked into alike.

    Attributes:
        root: local name of the root element; None if the file does not begin an XML document.
        lines: lines of the file that the parser was not given, to be added to the numbers of lines that it names.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        # `read1` gives what there is before the error of a stream that is cut; `read` would lose it.
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self._head = b""
        self.root: str | None = None
        self.lines = 0
        while len(self._head) < 4 and (data := self._read(CHUNK)):
            self._head += data
        if (encoding := _wide_encoding(self._head)) is not None:
            self._read, self._head = _AsUtf8(self._head, self._read, encoding).read, b""
            while b">" not in self._head and len(self._head) < CHUNK and (data := self._read(CHUNK)):
                self._head += data
            self._head = _ENCODING.sub(rb"\1", self._head, count=1)
        self._head = self._head.removeprefix(b"\xef\xbb\xbf").lstrip()
        self.root = root_name(self._head)
        while self.root is None and len(self._head) < CHUNK and (data := self._read(CHUNK)):
            self._head = (self._head + data).removeprefix(b"\xef\xbb\xbf").lstrip()
            self.root = root_name(self._head)
        self._head = _with_doctype(self._head)

    def read(self, size: int) -> bytes:
        """At most `size` bytes, none at the end."""
        data = self._head[:size] or self._read(size)
        self._head = self._head[size:]
        return data

    def line_of(self, element: Element) -> int:
        """The line of the file that an element begins in."""
        return self.lines + cast(int, element.sourceline or 0)


class _AsUtf8:
    """The bytes of a file in UTF-16 as those that it would have in UTF-8; half a pair of surrogates stays an error."""

    def __init__(self, head: bytes, read: Callable[[int], bytes], encoding: str) -> None:
        self._head, self._read = head, read
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")

    def read(self, size: int) -> bytes:
        """About `size` bytes, none at the end."""
        while data := self._head or self._read(size):
            self._head = b""
            if text := self._decoder.decode(data):
                return text.encode("utf-8", "surrogatepass")
        return b""


class _Records:
    """A source that remembers where its records begin, so that reading can go on after a broken one.

    Held are the pieces of the file from the first record on that was not handed on yet, and what comes before the
    first of all and opens what the records stand in. Names are found as ASCII, with a namespace prefix or without.
    """

    def __init__(self, source: XmlSource, names: tuple[str, ...]) -> None:
        self.root = source.root
        self._source = source
        self._names = names
        self._after_prefix = [b":" + name.encode() for name in names]
        self._tag, self._tag_or_prefixed = (
            re.compile(rb"<%s(?:%s)[\s/>]" % (prefix, b"|".join(name.encode() for name in names)))
            for prefix in (b"", rb"(?:[\w.-]{1,%d}:)?" % LONGEST_PREFIX)
        )
        self._longest = max(map(len, names)) + 2 + LONGEST_PREFIX
        self._end = b""  # of what was read: at most `_longest` bytes, which may begin a tag
        self._pieces: deque[bytes] = deque()
        self._held_from = self._size = 0  # bytes before the first piece, bytes read
        self._lines = 0  # lines read
        self._starts: deque[int] = deque()  # places of the records that were not handed on
        # What may open the file before a record; the one that did last comes first.
        self._prologs: list[bytes] = []
        self._once_more = b""  # held, and to be read by a new parser
        self._begun = 0  # records whose beginnings the parser was given since it gave one

    @property
    def lines(self) -> int:
        """As `XmlSource.lines`."""
        return self._source.lines

    def read(self, size: int) -> bytes:
        """At most `size` bytes, none at the end."""
        if self._once_more:
            data, self._once_more = self._once_more[:size], self._once_more[size:]
            return data
        # After some errors lxml takes in all the rest of a file, and gives nothing, until it is told of the end.
        return b"" if self._begun > STALLED or self._is_too_long() else self._read_on(size)

    def take(self) -> None:
        """A record was handed on."""
        self._begun = 0
        if self._starts:
            self._starts.popleft()

    def read_alone(self) -> Element | None:
        """The first record that was not handed on, read without those around it; None if it is broken or cut.

        An error may stand between two records, or in the first one, which is then taken for a part of what opens the
        file: hence two ways to open it.
        """
        if not self._starts or self._is_too_long():
            return None
        bounds = [*itertools.islice(self._starts, 2), self._size]
        record = b"".join(self._pieces)[bounds[0] - self._held_from : bounds[1] - self._held_from]
        for prolog in list(self._prologs):
            self._open_with(prolog)
            parser = etree.XMLPullParser(
                events=("end",), tag=[f"{{*}}{name}" for name in self._names], **_SAFE
            )
            with contextlib.suppress(etree.XMLSyntaxError):
                parser.feed(prolog + record)
            for _, element in parser.read_events():
                self._prologs.sort(key=lambda one: one != prolog)
                return cast(Element, element)
        return None

    def go_on(self) -> bool:
        """Begin anew at the first record that was not handed on, for a new parser; False if there is none."""
        while not self._starts:
            if not self._read_on(CHUNK):
                return False
        if not self._prologs:
            return False
        self._open_with(self._prologs[0])
        self._once_more = self._prologs[0] + b"".join(self._pieces)[self._starts[0] - self._held_from :]
        self._begun = len(self._starts)
        return True

    def read_to_next(self) -> None:
        """Read on until the end of the first record that was not handed on is known, or it is too long."""
        while len(self._starts) == 1 and not self._is_too_long():
            if not self._read_on(CHUNK):
                break

    def _is_too_long(self) -> bool:
        """Whether the first record that was not handed on is longer than is held."""
        return len(self._starts) == 1 and self._size - self._starts[0] > LONGEST_RECORD

    def _open_with(self, prolog: bytes) -> None:
        held = b"".join(self._pieces)[self._starts[0] - self._held_from :]
        self._source.lines = self._lines - held.count(b"\n") - prolog.count(b"\n")

    def _read_on(self, size: int) -> bytes:
        data = self._source.read(size)
        text, begun = self._end + data, len(self._end)
        # Few files have prefixes, and looking for them takes thrice the time.
        is_prefixed = any(name in text for name in self._after_prefix)
        for match in (self._tag_or_prefixed if is_prefixed else self._tag).finditer(text):
            if match.end() > begun:  # or it was found with the piece before
                self._starts.append(self._size - begun + match.start())
                self._begun += 1
        self._end = text[-self._longest :]
        self._pieces.append(data)
        self._size += len(data)
        self._lines += int(np.count_nonzero(np.frombuffer(data, np.uint8) == _LINE_END))
        if not self._prologs and self._starts and not self._held_from:
            whole = b"".join(self._pieces)[: self._starts[0]]
            root = re.search(rb"<(?:[\w.-]+:)?%s(?:\s[^>]*)?>" % (self.root or "").encode(), whole)
            self._prologs = [whole, whole[: root.end()] if root else b""]
        if self._prologs or self._size > LONGEST_PROLOG:
            self._forget()
        return data

    def _forget(self) -> None:
        """Let go of the pieces before the first record that was not handed on, but for the last of them."""
        needed = self._starts[0] if self._starts else self._size - self._longest
        while len(self._pieces) > 1 and self._held_from + len(self._pieces[0]) <= needed:
            self._held_from += len(self._pieces.popleft())


def records(
    source: XmlSource,
    names: tuple[str, ...],
    file: str,
    broken: Callable[[BadInput], None],
    *,
    flat: bool = False,
) -> Iterator[Element]:
    """Yield each finished record, and go on after one that is broken; each is forgotten afterwards.

    Args:
        source: the file.
        names: local names of records; none stands within another.
        file: name of the file, for the error.
        broken: is told, once a place, where the XML is cut or not well-formed.
        flat: the records are children of the root. Their siblings of other names are yielded too.
    """
    marked, tags = _Records(source, names), tuple(f"{{*}}{name}" for name in names)
    is_told = False  # what broke, though the record before it was the first that the parser did not finish
    while True:
        try:
            for element in children(marked, file) if flat else elements(marked, tags, file):
                if element.tag in names or element.tag.rpartition("}")[2] in names:
                    marked.take()
                    is_told = False
                yield element
            return
        except BadInput as error:
            if not is_told:
                broken(error)
        except BROKEN:  # the compression, where the last record may have come whole
            if (alone := marked.read_alone()) is not None:
                yield alone
            raise
        marked.read_to_next()
        alone = marked.read_alone()
        is_told = alone is not None
        if alone is not None:
            yield alone
        marked.take()
        if not marked.go_on():
            return


def elements(source: IO[bytes] | XmlSource | _Records, tags: tuple[str, ...], file: str) -> Iterator[Element]:
    """Yield each finished element with one of the names; it and what came before it are forgotten afterwards.

    An element inside another one of the names is left to that one.

    Args:
        source: bytes in any encoding that the file declares.
        tags: names, as "{namespace}name", or "{*}name" for any namespace.
        file: name of the file, for the error.

    Raises:
        BadInput: the XML ends too early or is not well-formed; all complete elements before that place were yielded.
    """
    source = source if isinstance(source, XmlSource | _Records) else XmlSource(source)
    names = {tag.rpartition("}")[2] for tag in tags}
    try:
        for _, element in etree.iterparse(cast("IO[bytes]", source), events=("end",), tag=tags, **_SAFE):
            node, parent = element, element.getparent()
            if parent is not None and parent.tag.rpartition("}")[2] in names:
                continue  # a part of an element that is still to come
            yield element
            element.clear(keep_tail=False)
            while parent is not None:
                while parent[0] is not node:
                    del parent[0]
                node, parent = parent, parent.getparent()
    except etree.XMLSyntaxError as error:
        raise _broken(file, error, source.lines) from error


def children(source: XmlSource | _Records, file: str) -> Iterator[Element]:
    """Yield each finished child of the root element; it is forgotten afterwards.

    The same as `elements` for a flat file of many records, and a fifth faster: the parser reports the root only,
    and the children are taken from it after each piece of the file.

    Raises:
        BadInput: as `elements`; the last child before that place was not yielded, as it may be cut.
    """
    parser = etree.XMLPullParser(events=("start",), tag=f"{{*}}{source.root}", **_SAFE)
    root: Element | None = None
    try:
        while data := source.read(CHUNK):
            parser.feed(data)
            root = root if root is not None else _first(parser)
            if root is not None:
                yield from _take(root, len(root) - 1)  # the last one may go on in the next piece
        parser.close()
    except etree.XMLSyntaxError as error:
        root = root if root is not None else _first(parser)
        if root is not None:
            yield from _take(root, len(root) - 1)
        raise _broken(file, error, source.lines) from error
    if root is not None:
        yield from _take(root, len(root))


def drop_namespace(element: Element) -> None:
    """Give an element, and what stands in it in the same namespace, their local names; elements of others keep theirs."""
    if isinstance(element.tag, str) and element.tag.startswith("{"):
        namespace = element.tag.partition("}")[0] + "}"
        for node in list(element.iter(namespace + "*")):
            node.tag = node.tag.removeprefix(namespace)


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
    encoding = _wide_encoding(head) or "utf-8"
    for mark in _BOMS:
        head = head.removeprefix(mark)
    if encoding == "utf-8" and head.lstrip()[:1] != b"<":
        return None
    text = head.decode(encoding, errors="replace")
    position = 0
    while (match := _PROLOG.match(text, position)) is not None:
        position = match.end()
    root = _ROOT.match(text, position)
    return root[1].rpartition(":")[2] if root else None


def as_utf8(head: bytes) -> bytes:
    """The first bytes of a file as they would be in UTF-8, to look for names in them."""
    encoding = _wide_encoding(head)
    return head if encoding is None else head.decode(encoding, "replace").encode("utf-8", "replace")


def _wide_encoding(head: bytes) -> str | None:
    """UTF-16 with its order of bytes, if a file begins as one in it does."""
    if head.startswith(codecs.BOM_UTF16_LE) or head[:4] == b"<\0?\0":
        return "utf-16-le"
    return "utf-16-be" if head.startswith(codecs.BOM_UTF16_BE) or head[:4] == b"\0<\0?" else None


def _with_doctype(head: bytes) -> bytes:
    """The beginning of a file with a document type before the root; as it is where it has one, or is not ASCII."""
    if not head.startswith(b"<"):
        return head
    position = 0
    while (match := _PROLOG_BYTES.match(head, position)) is not None:
        if match[0].lstrip().startswith(b"<!DOCTYPE"):
            return head
        position = match.end()
    root = _ROOT_BYTES.match(head, position)
    return (
        head if root is None else b'%s<!DOCTYPE %s SYSTEM "">%s' % (head[:position], root[1], head[position:])
    )


def _broken(file: str, error: etree.XMLSyntaxError, lines: int) -> BadInput:
    """The reason is the same for all files that break in one way, for reasons are counted; the value says where."""
    message = (error.msg or "no content").split(", line")[0]
    where = f"{message}, line {error.lineno + lines}" if error.lineno else None
    return BadInput(file, "broken XML: " + re.sub(r": .* line \d.*", "", message), value=where)
