"""Sentence splitting: spans in code points behind one function, and the fast splitter tuned on biomedical text.

Tiling rule, the same for every splitter: spans are in order and do not overlap; each begins and ends with a character
that is not white space; every character that is not white space lies in exactly one span. So the text between two
spans is white space or nothing, and a text of white space only has no spans.

How the fast splitter reads a text: one regular expression finds every mark that could end a sentence (a stop, closing
quotes or brackets, white space, and something that could begin a sentence; a stop glued to a new word; a line break),
and a few rules about the word before, the word after and open brackets refuse the marks of abbreviations, initials,
list numbers and citations. A number that opens a list item ("2. The aim") belongs to the item. Measured against gold
boundaries, beside pysbd, by `benchmarks/sentences.py`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable

from biosmith.errors import UsageError

Span = tuple[int, int]

# What may follow a stop at the start of a sentence: anything but a plain lower-case word or a mark that goes on.
# Gene-like words begin sentences in lower case (p53, mRNA, siRNA, alpha-TC, c-Myc), so does "*p < 0.05".
_START = r"""(?: [^\sa-z.,;:!?)\]}%/+=<>&–—-] | [a-z]{1,5}[A-Z0-9]
                | (?:alpha|beta|gamma|delta|kappa|[a-z]{1,2})-[A-Za-z]*[A-Z0-9] )"""

_MARK = re.compile(
    # Nothing is given back, and a run of stops is looked at once: a line of dots must not take the square of its length.
    rf"""\n (?:[^\S\n]*\n)* [^\S\n]*
      | (?<![.!?…]) [.!?…] ( [.!?…]*+ ["'”’»)\]}}]*+ ) (?:
            \s+ (?={_START})
          | (?<=[a-z][a-z][.!?]) (?=[A-Z][a-z]+[\ ,-])                                  # confirm this.Aminoglycosides are
          | (?<=[)\]%][.!?]) (?=[A-Z][a-z]+[\ ,-])                                      # (n = 6).The mice
          | (?<=[a-z)\]][.]) (\[?\d{{1,3}}(?:[,–-]\ ?\d{{1,3}})*\]?) \s+ (?=[A-Z])      # corticosteroids.2-4 As
      )""",
    re.VERBOSE,
)
_WORD = re.compile(r"[A-Za-z]+")
_LIST_NUMBER = re.compile(r"(?:\d{1,3}|[ivx]{1,4}|[IVX]{1,4}|[iI][VXvx]{1,3})[)\]]?$")
_ONE_OF_SEVERAL = re.compile(r"\b[A-Z],? (?:and|or)$")  # "groups A and B."
_DECIMAL_BEFORE = frozenset("0123456789<>=±")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Abbreviations, without their last stop. A capital first letter is allowed, all capitals are not: "ca." is
# circa, "CA." ends a sentence.
_NEVER_LAST = _words(  # the sentence goes on, whatever follows
    """e.g i.e eg ie cf vs v viz dr drs mr mrs ms prof fig figs eq eqs eqn ref refs approx ca resp st incl excl
    vol vols suppl ph.d m.d b.sc m.sc vid seq dept univ gov rev eds ed pp acc"""
)
_SELDOM_LAST = _words(  # the sentence goes on unless the next word is one that begins sentences
    """sp spp subsp ssp var str bv pv al inc ltd co corp u.s u.k u.s.a e.u ver ser bros aff gen col jr sr dist
    jan feb mar apr jun jul aug sep sept oct nov dec nat biol chem proc natl acad sci genet neurosci neurobiol pharm
    lab labs tech mt ft"""
)
_OFTEN_LAST = _words(  # units and Latin: a capitalised word after them begins a sentence, a number does not
    """etc i.v i.p s.c i.m p.o s.e.m s.d s.e a.m p.m b.w b.i.d t.i.d q.d p.r i.d i.c.v i.n i.g h hr hrs min mins sec
    wk wks yr yrs mo max temp wt conc"""
)
_STARTERS = _words(
    """A Additionally After All Also Although Among An Analyses Analysis Animals As At Background Based Because Both By
    Cells Compared Conclusion Conclusions Consequently Conversely Data Despite Differences Due During Each Eight
    Experiments Expression Finally Five Following For Four From Further Furthermore Given He Hence Her Here His How
    However Human I If Importantly In Increased Interestingly It Its Levels Many Mean Measurements Methods Mice Moreover
    Most Mutations Neither Nevertheless Nine No None Not Notably Objective Of On One Only Other Our Overall Patients
    Plasma Previous Rats Recent Recently Results Samples Seven Several She Significant Similar Similarly Since Six Some
    Specifically Studies Subsequently Such Surprisingly Taken Ten That The Their Then There Therefore These They This
    Those Three Thus To Together Total Treatment Two Under Unlike Using We What When Whereas Whether While With"""
)
# After these a single capital is a name of something, not a person's initial: "vitamin C.", "Group B.", "troponin I."
_LETTERED = _words(
    """group groups type types class grade stage phase vitamin hepatitis factor complex protein cyclin troponin
    cohort arm arms panel panels part step site domain subunit chain form isoform strain influenza apolipoprotein
    immunoglobulin cathepsin polymerase kinase topoisomerase angiotensin box degrees degree interferon collagen
    cytochrome hemoglobin fraction compound case patient schedule subtype appendix"""
)


def split(text: str, method: str = "fast") -> list[Span]:
    """Spans (start, end) of the sentences of a text, in code points, tiling it as the module describes.

    Args:
        text: any text; paragraphs may be separated by blank lines.
        method: "fast" (the default), "pysbd" (needs the package pysbd) or "scispacy" (needs the extra
            `biosmith[scispacy]` and its model en_core_sci_sm).

    Raises:
        UsageError: the method is unknown or its package is not installed.

    >>> [text[a:b] for text in ["Seen in E. coli (Fig. 2). P < 0.05."] for a, b in split(text)]
    ['Seen in E. coli (Fig. 2).', 'P < 0.05.']
    """
    if method == "fast":
        return _split_fast(text)
    return splitter(method)(text)


def splitter(method: str = "fast") -> Callable[[str], list[Span]]:
    """The function behind a method's name; see `split`."""
    if method not in METHODS:
        raise UsageError(f"sentence splitter {method!r} is unknown; valid: {', '.join(METHODS)}")
    return METHODS[method]()


def _split_fast(text: str) -> list[Span]:
    begin = len(text) - len(text.lstrip())
    spans: list[Span] = []
    wrapped: bool | None = None
    square = "[" in text
    for mark in _MARK.finditer(text):
        at, following = mark.span()
        end = mark.end(1)
        if mark.lastindex == 2:
            end = mark.end(2)
        elif end == at + 1:
            if text[at] == "." and not _ends_here(text, begin, at, following):
                continue
            opened = text.rfind("(", begin, at)
            if (opened != -1 or square) and _is_open(text, begin, at):
                continue
        elif end == -1:
            if wrapped is None:
                wrapped = _is_hard_wrapped(text)
            if wrapped and text.count("\n", at, following) == 1:
                continue
            end = begin + len(text[begin:at].rstrip())
        elif text[end - 1] in ")]" and _goes_on_after_bracket(text, begin, at, following):
            continue
        if begin < end:
            spans.append((begin, end))
        begin = max(following, end)
    end = len(text.rstrip())
    if begin < end:
        spans.append((begin, end))
    return spans


def _ends_here(text: str, begin: int, at: int, following: int) -> bool:
    """Whether the full stop at `at` ends the sentence that began at `begin`; `following` is where the next would."""
    word_begin = text.rfind(" ", begin, at) + 1 or begin
    if at - word_begin > 8:
        return True
    word = text[word_begin:at]
    if not word.isalpha():
        word = word.lstrip("([{\"'“‘")
    if len(word) == 1 and word.isalpha():
        return _single_letter_ends(text, begin, word_begin, at, following)
    if not word.islower():
        word = word.lower() if "." in word else word[:1].lower() + word[1:]
    if word in _NEVER_LAST:
        return False
    if word in ("no", "nos"):
        return not text[following].isdigit()
    if word in _SELDOM_LAST:
        return _starts_sentence(text, following)
    if word in _OFTEN_LAST:
        return _is_capitalised(text, following)
    if word_begin == begin and _LIST_NUMBER.match(word):
        return False
    if text[following].isdigit() and word[-1:] in _DECIMAL_BEFORE:
        return word.lstrip("<>=±+-") not in ("0", "")  # "P = 0. 05" is a decimal torn apart
    return True


def _single_letter_ends(text: str, begin: int, word_begin: int, at: int, following: int) -> bool:
    """A single letter before the stop: an initial, a list letter, a unit, or a name such as vitamin C."""
    if word_begin == begin:
        return False
    before = text[max(begin, word_begin - 20) : word_begin - 1]
    if text[at - 1].islower() and before[-1:].isdigit():
        return _is_capitalised(text, following)
    if _starts_sentence(text, following):
        return True
    if text[following].isdigit():
        return False
    noun = before[before.rfind(" ") + 1 :].lstrip("(").lower()
    return noun in _LETTERED or _ONE_OF_SEVERAL.search(before) is not None


def _is_capitalised(text: str, following: int) -> bool:
    """Whether a word such as "Anaesthesia" or "RESULTS:" follows, not an acronym or a number."""
    return (text[following].isupper() and text[following + 1 : following + 2].islower()) or _starts_sentence(
        text, following
    )


def _starts_sentence(text: str, following: int) -> bool:
    """Whether the next word is one that begins sentences, or a section label in capitals ("RESULTS:")."""
    word = _WORD.match(text, following)
    return word is not None and (
        word[0] in _STARTERS
        or (len(word[0]) > 3 and word[0].isupper() and text[word.end() : word.end() + 1] == ":")
    )


def _is_open(text: str, begin: int, at: int) -> bool:
    """Whether a bracket opened in the sentence, at most 250 characters before, closes at most 250 after `at`."""
    begin = max(begin, at - 250)
    opened = max(text.rfind("(", begin, at), text.rfind("[", begin, at))
    if opened == -1:
        return False
    close = ")" if text[opened] == "(" else "]"
    if text.find(close, opened, at) != -1:
        return False
    closed = text.find(close, at, at + 250)
    return closed != -1 and text.find(text[opened], at, closed) == -1


def _goes_on_after_bracket(text: str, begin: int, at: int, following: int) -> bool:
    """ "60 mg/kg i.p.) 5 days": the stop is an abbreviation's and the bracket closes within the sentence."""
    opened = max(
        text.rfind(" ", begin, at), text.rfind("(", begin, at), text.rfind("[", begin, at), begin - 1
    )
    return text[opened + 1 : at].lower() in _OFTEN_LAST and not _starts_sentence(text, following)


def _is_hard_wrapped(text: str) -> bool:
    """Whether single line breaks only wrap lines: a third of them or more are followed by a lower-case word."""
    breaks = text.count("\n")
    return len(re.findall(r"\n[a-z]{2}", text)) * 3 >= breaks


@functools.cache
def _pysbd() -> Callable[[str], list[Span]]:
    try:
        import pysbd
    except ImportError as error:
        raise UsageError("sentence splitter 'pysbd' needs the package pysbd: pip install pysbd") from error
    segmenter = pysbd.Segmenter(language="en", clean=False)

    def split_text(text: str) -> list[Span]:
        # pysbd's own spans go wrong where a sentence occurs twice, so the sentences are found again in order.
        starts, position = [], 0
        for sentence in segmenter.segment(text):
            found = text.find(sentence.strip(), position)
            if sentence.strip() and found != -1:
                starts.append(found)
                position = found + len(sentence.strip())
        return _tile(text, starts)

    return split_text


@functools.cache
def _scispacy() -> Callable[[str], list[Span]]:
    try:
        import spacy

        pipeline = spacy.load("en_core_sci_sm", exclude=["ner", "lemmatizer", "attribute_ruler"])
    except (ImportError, OSError) as error:
        raise UsageError(
            "sentence splitter 'scispacy' needs pip install 'biosmith[scispacy]' and scispaCy's model en_core_sci_sm"
        ) from error

    def split_text(text: str) -> list[Span]:
        return _tile(text, [sentence.start_char for sentence in pipeline(text).sents])

    return split_text


def _tile(text: str, starts: list[int]) -> list[Span]:
    """Spans from the places where sentences start; what lies before the first start belongs to the first."""
    edges = [0, *sorted(set(starts) - {0}), len(text)]
    spans = []
    for a, b in itertools.pairwise(edges):
        piece = text[a:b]
        if piece.strip():
            begin = a + len(piece) - len(piece.lstrip())
            spans.append((begin, begin + len(piece.strip())))
    return spans


METHODS: dict[str, Callable[[], Callable[[str], list[Span]]]] = {
    "fast": lambda: _split_fast,
    "pysbd": _pysbd,
    "scispacy": _scispacy,
}
