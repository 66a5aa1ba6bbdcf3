"""The language filter: declared first, detected second."""

from __future__ import annotations

import pytest

from biosmith.corpus import language
from biosmith.corpus.language import declared_languages, is_language, known_language
from biosmith.errors import UsageError
from biosmith.text.document import Document, Passage

ENGLISH = (
    "Cholesterol present in the plasma membrane of target cells has been shown to be important for the infection. "
    "We show that its depletion affects infection to the same extent as infection by other viruses."
)
GERMAN = (
    "Cholesterin in der Plasmamembran der Zielzellen ist nachweislich wichtig für die Infektion durch das Virus. "
    "Wir zeigen, dass sein Entzug die Infektion in gleichem Maße beeinflusst wie die durch andere Viren."
)


def document(text: str, language: str = "") -> Document:
    return Document.build("1", [Passage("abstract", text)], infons={"language": language} if language else {})


@pytest.mark.parametrize(
    ("text", "declared", "english"),
    [
        (ENGLISH, "eng", True),
        (GERMAN, "eng", True),  # what is declared is believed
        (ENGLISH, "", True),
        (GERMAN, "", False),
        (ENGLISH, "ger", True),  # NLM's English abstract of a German article
        (GERMAN, "ger", False),
        ("[A short title].", "ger", False),  # too little text to show that it is English
        ("Kurzer Titel", "", True),  # nothing declared, nothing to tell by
        (GERMAN, "ger; eng", True),
        (ENGLISH, "en-US", True),
        (GERMAN, "und", False),  # undetermined is nothing declared
    ],
)
def test_declared_then_detected(text: str, declared: str, english: bool) -> None:
    assert is_language(document(text, declared), "en") is english


def test_three_letter_codes_of_nlm_and_two_letter_codes_are_the_same_language() -> None:
    assert known_language("eng") == known_language("EN") == "en"
    assert known_language("ger") == known_language("deu") == "de"
    assert declared_languages(document("", "chi; eng")) == ("zh", "en")


def test_an_unknown_language_names_the_valid_ones() -> None:
    with pytest.raises(UsageError, match=r"'english' is unknown; valid: .*eng"):
        known_language("english")


def test_every_code_that_detection_gives_can_be_wanted() -> None:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    labels = set(LanguageIdentifier.from_model_file(MODEL_FILE).labels) - {"zxx"}  # "no language"
    assert labels > {"en", "fy", "yue"}
    # no label of detection is a three-letter code of another language, which would be turned into two letters
    assert not labels & set(language._THREE_LETTERS)
    for code in ("fy", "yue", "en", "zh", "sr"):
        assert known_language(code) == code
