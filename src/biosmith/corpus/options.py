"""What decides the content of a corpus; nothing else does (not the number of workers, not stopping and resuming)."""

from __future__ import annotations

from dataclasses import dataclass

from biosmith.corpus.language import known_language
from biosmith.errors import UsageError


@dataclass(frozen=True)
class BuildOptions:
    """Options of `build_corpus`.

    Attributes:
        min_words: documents with fewer words outside their titles are filtered; 0 keeps all. PubMedBERT (Gu et
            al., 2021, section 3.1) drops abstracts of fewer than 128 words.
        language: keep documents of this language only ("eng" or "en"); None keeps all. See `language.is_language`.
        deduplicate: remove exact and near duplicates.
        similarity: estimated Jaccard similarity of the sets of word trigrams from which documents are duplicates.
        exclude: files whose documents, and all that repeat a run of their words, are kept out: see `exclusion`.
        shard_characters: characters of text in a shard, about.
        strict: stop at the first record that cannot be used instead of setting it aside.
    """

    min_words: int = 0
    language: str | None = None
    deduplicate: bool = True
    similarity: float = 0.8
    exclude: tuple[str, ...] = ()
    shard_characters: int = 64_000_000
    strict: bool = False

    def __post_init__(self) -> None:
        if self.min_words < 0:
            raise UsageError(f"min_words is {self.min_words}; it must be 0 or more")
        if not 0.5 <= self.similarity <= 1:
            raise UsageError(f"similarity is {self.similarity}; it must lie between 0.5 and 1")
        if self.shard_characters < 1:
            raise UsageError(f"shard_characters is {self.shard_characters}; it must be 1 or more")
        if self.language is not None:
            known_language(self.language)
