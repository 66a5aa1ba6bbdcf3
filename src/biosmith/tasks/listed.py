"""Documents whose splits are lists of ids in files beside them, as MedMentions, NLM-Gene and NLM-Chem are released."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from biosmith.rejects import Rejects
from biosmith.text import files, formats
from biosmith.text.document import Document

# split -> words that name it
WORDS = {"train": ("train", "trng"), "dev": ("dev", "valid"), "test": ("test",)}
_SUFFIXES = (".txt", ".tsv", ".csv", ".lst")
_LONGEST = 2**20  # bytes of a list
_IDS = re.compile(rb"(?:\xef\xbb\xbf)?(?:PM(?:C|ID:?))?\d+(?:[\s,]+(?:PM(?:C|ID:?))?\d+)*[\s,]*")
_NUMBER = re.compile(r"(?:PM(?:C|ID:?))?(\d+)")


def find_listed(folder: Path) -> dict[str, list[Path]]:
    """The files of each split: its list of ids, and after it the files with the documents of all splits.

    Empty if no file of the folder is a list that is named after a split, or if there are no documents.
    """
    lists = [path for path in sorted(folder.iterdir()) if path.is_file() and is_list(path)]
    found: dict[str, Path] = {}
    for path in lists:
        name = path.name.lower()
        split = next((split for split, words in WORDS.items() if any(word in name for word in words)), None)
        if split is not None:
            found.setdefault(split, path)
    documents = [path for path in formats.find_files(folder) if path not in lists] if found else []
    return {split: [path, *documents] for split, path in found.items()} if documents else {}


def is_list(path: Path) -> bool:
    """Whether a file holds nothing but ids (numbers, PMC numbers), one a line or with commas between them."""
    if not files.strip_compression(path.name).lower().endswith(_SUFFIXES) or path.stat().st_size > _LONGEST:
        return False
    try:
        with files.open_decompressed(path) as stream:
            return _IDS.fullmatch(stream.read(_LONGEST)) is not None
    except files.BROKEN:
        return False


def read_documents(paths: Sequence[Path], rejects: Rejects) -> Iterator[Document]:
    """The documents of files; of those after a list only the ones that it names, in the order of the files.

    Files that are named by a number (`10022882.BioC.XML`) are not opened for a document that is not listed; ids that no
    document has go to `rejects`.
    """
    if not is_list(paths[0]):
        yield from formats.read(list(paths), rejects=rejects)
        return
    with files.open_decompressed(paths[0]) as stream:
        missing = dict.fromkeys(_NUMBER.findall(stream.read().decode("utf-8-sig")))
    wanted = set(missing)
    named = [number[1] if (number := _NUMBER.match(path.name)) else None for path in paths[1:]]
    read = [path for path, number in zip(paths[1:], named, strict=True) if number is None or number in wanted]
    for document in formats.read(read, rejects=rejects) if read else ():
        number = _NUMBER.fullmatch(document.id)
        if number and number[1] in wanted:
            missing.pop(number[1], None)
            yield document
    for id in missing:
        rejects.add(paths[0], id, "is the id of no document beside this list")
