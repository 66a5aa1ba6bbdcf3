"""Format to format: documents to sentences with tags, BioASQ's questions to SQuAD's form, documents to documents.

Nothing goes unsaid: what was set aside, what a format cannot hold and what tags cannot say is listed in a report
beside the output, `OUT.report.jsonl`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from biosmith.artefact import folder_by_rename, require_new_folder, require_writable
from biosmith.bench.prepare.bioasq import bioasq_to_squad, is_bioasq
from biosmith.bench.prepare.species import Release, find_release, read_release, read_splits
from biosmith.bench.tagging import TaggedDocuments, Untaggable, tag
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.rejects import Rejects
from biosmith.tasks.listed import read_documents
from biosmith.tasks.locking import by_name
from biosmith.tasks.tagged import DOCUMENT_START, TaggedSentence, find_splits, read_conll
from biosmith.text import files, formats
from biosmith.text.document import Document
from biosmith.text.formats.tables import EU_ADR, is_eu_adr

TAGS, SQUAD = "conll", "squad"


@dataclass
class Conversion:
    """What was written.

    Attributes:
        format: of the output.
        files: those that were made.
        counts: documents, sentences, mentions, questions, ...: what there is of them.
        lost: what the format cannot hold -> how often that was left out.
        set_aside: how many lines the report has.
        report: the file that lists them; None if there is none.
    """

    format: str
    files: list[Path]
    counts: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    set_aside: int = 0
    report: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "format": self.format,
            "files": [str(path) for path in self.files],
            **self.counts,
            "lost": dict(self.lost),
            "set_aside": self.set_aside,
            "report": None if self.report is None else str(self.report),
        }


def convert(source: Path, out: Path, to: str | None = None, *, keep_unanswered: bool = False) -> Conversion:
    """Convert a file or a folder.

    Args:
        source: documents in any format, BioASQ's question files, or a folder of one of them; or LINNAEUS or S800 as they
            are released (see `species`). For tags, a folder whose files are named after splits gives a folder with
            train.tsv, dev.tsv and test.tsv.
        out: the file (or folder) to make.
        to: "conll" (a word and its tag a line), "squad" (from BioASQ), or any format that can be written; None goes by
            the suffix of `out`, and by BioASQ's questions to "squad".
        keep_unanswered: BioASQ: keep the texts in which no answer was found, as a test set needs them.

    Raises:
        UsageError: the source does not exist, `out` exists as a folder, is or lies in the source, or cannot be written, or
            the format is unknown.
        BadInput: nothing in the source can be read, or it is EU-ADR's release, which has no texts.
    """
    if not source.exists():
        raise UsageError(f"{source} does not exist")
    release = find_release(source)
    _require_texts(source)
    to_squad = to == SQUAD or (to is None and is_bioasq(source))
    format = SQUAD if to_squad else formats.find_writer(out, to or _suffix_format(out))
    out = by_name(out)
    _require_apart(source, out)
    if out.is_dir():
        require_new_folder(out)
    else:
        require_writable(out)
    report = out.with_name(out.name + ".report.jsonl")
    report.unlink(missing_ok=True)  # that of an earlier output, which is made anew
    with Rejects(report) as rejects:
        if to_squad:
            counts = bioasq_to_squad(source, out, rejects, keep_unanswered=keep_unanswered)
            made = Conversion(SQUAD, [out], counts)
        elif format == TAGS:
            made = _to_tags(source, release, out, rejects)
        else:
            documents = read_release(release, rejects) if release else formats.read(source, rejects=rejects)
            written = formats.write(documents, out, format=format)
            counts = Counter(documents=written.documents, mentions=written.mentions)
            made = Conversion(format, [out], counts, written.lost)
    made.set_aside = rejects.count
    made.report = report if rejects.count else None
    return made


def _require_apart(source: Path, out: Path) -> None:
    """Refuse to write over what is read: what the format cannot hold would be gone for good."""
    if out.exists() and {source.resolve()} & {out.resolve(), *out.resolve().parents}:
        raise UsageError(f"{out} is what is converted, or part of it; choose another --out")


def _require_texts(source: Path) -> None:
    """Refuse EU-ADR's annotations by their name, wherever they lie."""
    inside = sorted(source.iterdir()) if source.is_dir() else [source]
    path = next((p for p in inside if p.is_file() and p.suffix in (".txt", ".csv")), None)
    if path is None:
        return
    with path.open("rb") as stream:
        if is_eu_adr(stream.read(files.HEAD)):
            raise BadInput(path, EU_ADR)


def _suffix_format(out: Path) -> str | None:
    """Tables of words are called .tsv too, and so is a folder of them that has no suffix."""
    return TAGS if files.strip_compression(out.name).endswith(".tsv") or not out.suffix else None


def _to_tags(source: Path, release: Release | None, out: Path, rejects: Rejects) -> Conversion:
    made = Conversion(TAGS, [])
    if (source.is_dir() or release) and not out.suffix:
        splits: dict[str, tuple[list[Path], Iterable[Document]]]
        if release:
            splits = {s: ([release.source], ds) for s, ds in read_splits(release, rejects).items()}
        else:
            found = find_splits(source)
            splits = {s: (paths, read_documents(paths, rejects)) for s, paths in found.items()}
        require_new_folder(out)
        with folder_by_rename(out) as temporary:
            for split, (paths, documents) in splits.items():
                made.counts += _write_tags(documents, paths, temporary / f"{split}.tsv", rejects)
        made.files = [out / f"{split}.tsv" for split in splits]
    else:
        made.files = [out]
        documents = read_release(release, rejects) if release else read_documents([source], rejects)
        made.counts = _write_tags(documents, [source], out, rejects)
    return made


def _write_tags(
    documents: Iterable[Document], sources: list[Path], out: Path, rejects: Rejects
) -> Counter[str]:
    """Write documents one by one, then read the file and compare."""
    counts: Counter[str] = Counter(documents=0, sentences=0, words=0, mentions=0, tagged=0)
    digests: list[int] = []

    def sentences() -> Iterator[tuple[str, TaggedDocuments]]:
        for document in documents:
            tagged = tag([document], sources)
            for mention in tagged.untaggable:
                _note(mention, str(sources[0]), rejects)
            counts.update(
                documents=1,
                sentences=len(tagged),
                words=sum(len(s.words) for s in tagged),
                mentions=len(document.mentions),
                tagged=len(document.mentions) - len(tagged.untaggable),
            )
            digests.extend(_digest(s) for s in tagged)
            yield document.id, tagged

    write_tagged(sentences(), out)
    for number, (written, read) in enumerate(itertools.zip_longest(digests, map(_digest, read_conll(out)))):
        if written != read:
            raise BiosmithError(f"{out}: sentence {number + 1} does not come back as it was written")
    return counts


def _digest(sentence: TaggedSentence) -> int:
    return hash((sentence.words, sentence.tags))


def _note(mention: Untaggable, file: str, rejects: Rejects) -> None:
    value = f"{mention.type} {mention.text!r} at {mention.start}-{mention.end}"
    rejects.add(file, f"document {mention.document}", f"the mention {mention.reason}", value)


def write_tagged(documents: Iterable[tuple[str, Iterable[TaggedSentence]]], out: Path) -> None:
    """Write sentences as a word and its tag a line, by rename; each document begins with a `-DOCSTART-` line."""
    with files.create(out) as stream:
        for id, sentences in documents:
            name = " ".join(id.split())
            stream.write(f"{DOCUMENT_START} ({name})\n\n".encode())
            for sentence in sentences:
                rows = zip(sentence.words, sentence.tags, strict=True)
                stream.write(("".join(f"{word}\t{tag}\n" for word, tag in rows) + "\n").encode())
