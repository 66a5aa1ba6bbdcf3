"""The language filter: what a document declares comes first, detection on enough text second."""

from __future__ import annotations

import functools
from collections.abc import Callable

from biosmith.errors import UsageError
from biosmith.text.document import Document

# ISO 639-2/B, as NLM declares languages, and ISO 639-2/T, to the ISO 639-1 codes that detection gives.
_THREE_LETTERS = {
    "afr": "af", "alb": "sq", "sqi": "sq", "amh": "am", "ara": "ar", "arg": "an", "arm": "hy", "hye": "hy",
    "asm": "as", "aze": "az", "baq": "eu", "eus": "eu", "bel": "be", "ben": "bn", "bos": "bs", "bre": "br",
    "bul": "bg", "bur": "my", "mya": "my", "cat": "ca", "chi": "zh", "zho": "zh", "cze": "cs", "ces": "cs",
    "dan": "da", "dut": "nl", "nld": "nl", "dzo": "dz", "eng": "en", "epo": "eo", "est": "et", "fao": "fo",
    "fin": "fi", "fre": "fr", "fra": "fr", "geo": "ka", "kat": "ka", "ger": "de", "deu": "de", "gle": "ga",
    "glg": "gl", "gre": "el", "ell": "el", "guj": "gu", "hat": "ht", "heb": "he", "hin": "hi", "hrv": "hr",
    "hun": "hu", "ice": "is", "isl": "is", "ind": "id", "ita": "it", "jav": "jv", "jpn": "ja", "kan": "kn",
    "kaz": "kk", "khm": "km", "kin": "rw", "kir": "ky", "kor": "ko", "kur": "ku", "lao": "lo", "lat": "la",
    "lav": "lv", "lit": "lt", "ltz": "lb", "mac": "mk", "mkd": "mk", "mal": "ml", "mar": "mr", "may": "ms",
    "msa": "ms", "mlg": "mg", "mlt": "mt", "mon": "mn", "nep": "ne", "nno": "nn", "nob": "nb", "nor": "no",
    "oci": "oc", "ori": "or", "pan": "pa", "per": "fa", "fas": "fa", "pol": "pl", "por": "pt", "pus": "ps",
    "que": "qu", "rum": "ro", "ron": "ro", "rus": "ru", "scc": "sr", "scr": "hr", "sin": "si", "slo": "sk",
    "slk": "sk", "slv": "sl", "sme": "se", "spa": "es", "srp": "sr", "swa": "sw", "swe": "sv", "tam": "ta",
    "tel": "te", "tgl": "tl", "tha": "th", "tur": "tr", "uig": "ug", "ukr": "uk", "urd": "ur", "vie": "vi",
    "vol": "vo", "wel": "cy", "cym": "cy", "wln": "wa", "xho": "xh", "yor": "yo", "zul": "zu",
}  # fmt: skip
_TWO_LETTERS = frozenset(_THREE_LETTERS.values())
_UNDETERMINED = ("", "und", "mul", "zxx", "mis")

ENOUGH_WORDS = 20  # fewer words do not show their language reliably (titles, acronyms)
LOOKED_AT = 400  # characters that detection reads; more costs time and changes next to nothing


def known_language(code: str) -> str:
    """The code that detection gives for a language named by two or three letters, in any case.

    Raises:
        UsageError: the code is none of those that NLM declares and detection knows.
    """
    lowered = code.strip().lower()
    if lowered in _THREE_LETTERS:
        return _THREE_LETTERS[lowered]
    if lowered not in _TWO_LETTERS and lowered not in _detected():
        raise UsageError(f"language {code!r} is unknown; valid: {', '.join(sorted(_THREE_LETTERS))}")
    return lowered


def is_language(document: Document, wanted: str) -> bool:
    """Whether a document is of the wanted language.

    A document that declares it (infon "language": "eng", "fre; eng", "en-US") is. What MEDLINE declares is the
    language of the article, though, and NLM's abstract of a German article is in English: so a document that
    declares another language passes if its text is detected as the wanted one, and not if there is too little text
    to tell. A document that declares nothing passes unless its text is detected as another language.

    Args:
        document: as cleaned.
        wanted: two-letter code.
    """
    declared = declared_languages(document)
    if wanted in declared:
        return True
    text = _text_to_look_at(document)
    if text is None:
        return not declared
    return _detector()(text) == wanted


def declared_languages(document: Document) -> tuple[str, ...]:
    """Two-letter codes of the languages that a document declares; unknown codes as they are."""
    spelled = document.infons.get("language", "").replace(",", ";").lower().split(";")
    codes = [code.strip().partition("-")[0] for code in spelled]
    return tuple(_THREE_LETTERS.get(code, code) for code in codes if code not in _UNDETERMINED)


def _text_to_look_at(document: Document) -> str | None:
    longest = max((p.text for p in document.passages), key=len, default="")
    if longest.count(" ") + 1 < ENOUGH_WORDS:
        longest = document.text
    return (
        longest[:LOOKED_AT] if longest.count(" ") + 1 >= ENOUGH_WORDS or len(longest) >= LOOKED_AT else None
    )


def _detected() -> frozenset[str]:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return frozenset(LanguageIdentifier.from_model_file(MODEL_FILE).labels) - {"zxx"}


@functools.cache
def _detector() -> Callable[[str], str]:
    import py3langid

    def detect(text: str) -> str:
        return str(py3langid.classify(text)[0])

    return detect
