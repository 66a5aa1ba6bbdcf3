"""Write the sample data from the sentence material in `source/`: PubMed XML, a JATS article, a tagging set, gold mentions.

Everything is drawn from one seed, so the files are the same wherever this runs:

    python examples/data/make_sample.py
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lxml import etree

HERE = Path(__file__).resolve().parent
SEED = 1846
FIRST_PMID = 99_000_001  # far above the numbers in use, so that no real citation can be meant
STUDIES_A_TOPIC = 8
# Diseases that never occur in the training sentences, so that the test scores say something about new names.
ONLY_IN_DEVEL = ("osteoporosis", "migraine", "tuberculosis", "melanoma")
ONLY_IN_TEST = (
    "cystic fibrosis",
    "gout",
    "preeclampsia",
    "lead poisoning",
    "multiple sclerosis",
    "colorectal cancer",
)

PLACES = [
    "Denmark",
    "Ghana",
    "northern Italy",
    "Ontario",
    "Vietnam",
    "Scotland",
    "southern Brazil",
    "Japan",
    "Kenya",
]
PLACES += [
    "Catalonia",
    "Finland",
    "New Zealand",
    "Bangladesh",
    "Switzerland",
    "Chile",
    "Egypt",
    "Poland",
    "Iceland",
]
MONTHS = ["January", "March", "June", "September", "November"]
JOURNALS = ["Annals of Invented Medicine", "Journal of Sample Studies", "Example Archives of Therapeutics"]
JOURNALS += ["Imaginary Reports in Cell Biology", "Specimen Letters in Genetics", "Acta Fictitia Clinica"]
FAMILY_NAMES = [
    "Okafor",
    "Lindqvist",
    "Moreau",
    "Tanaka",
    "Oyelaran",
    "Novák",
    "García-Peña",
    "Haugen",
    "Ó Briain",
]
FAMILY_NAMES += [
    "Castellanos",
    "Weiß",
    "Achterberg",
    "Mbeki",
    "Rahman",
    "Sørensen",
    "Petrova",
    "Yılmaz",
    "Chaudhry",
]
FORE_NAMES = [
    "Ama",
    "Björn",
    "Chiara",
    "Dilip",
    "Elif",
    "Farid",
    "Grete",
    "Hyun-woo",
    "Ines",
    "Jakub",
    "Kofi",
    "Leïla",
]
WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
WORDS += ["thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"]

TAG = re.compile(r"<(/?)(\w+)>")
TOKEN = re.compile(r"\w+|[^\w\s]")
GOLD_TYPES = {"d": "Disease", "c": "Chemical"}


@dataclass(frozen=True)
class Section:
    """One labelled section of an abstract, as marked-up sentences."""

    label: str
    category: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """One abstract: what it is about, how it is told, and its sentences with gold marks and markup."""

    topic: str
    publication_type: str
    title: str
    sections: tuple[Section, ...]
    keywords: tuple[str, ...]
    chemicals: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        return [self.title, *(s for section in self.sections for s in section.sentences)]


@dataclass
class Marked:
    """A sentence taken apart: plain text and gold spans."""

    text: str = ""
    spans: list[tuple[int, int, str]] = field(default_factory=list)


def read_marks(sentence: str) -> Marked:
    """Plain text and gold spans of a marked-up sentence; markup that is not gold is dropped."""
    marked, position, open_at = Marked(), 0, 0
    for tag in TAG.finditer(sentence):
        marked.text += sentence[position : tag.start()]
        position = tag.end()
        if tag[2] in GOLD_TYPES and not tag[1]:
            open_at = len(marked.text)
        elif tag[2] in GOLD_TYPES:
            marked.spans.append((open_at, len(marked.text), GOLD_TYPES[tag[2]]))
    marked.text += sentence[position:]
    return marked


def without_gold(sentence: str) -> str:
    """The sentence with its markup but without the gold marks."""
    return re.sub(r"</?[dc]>", "", sentence)


def capitalised(text: str) -> str:
    """First letter upper case, past any marks, unless the word is spelled with capitals of its own (mRNA)."""
    match = re.match(r"((?:<\w+>)*)([a-z]+)(?![A-Z0-9])", text)
    if match is None:
        return text
    start = match.start(2)
    return text[:start] + text[start].upper() + text[start + 1 :]


# --- drawing a study -------------------------------------------------------------------------------------------------


def draw_numbers(rng: random.Random) -> dict[str, str]:
    """The numbers of one abstract, drawn once so that its sentences agree with each other."""
    n1, n2 = rng.randint(38, 260), rng.randint(38, 260)
    n = n1 + n2
    done = rng.randint(int(0.82 * n), n - 2)
    year = rng.randint(1998, 2016)
    ratio = rng.choice([rng.uniform(0.45, 0.88), rng.uniform(1.15, 2.8)])
    spread = rng.uniform(1.1, 1.35)
    pct = rng.randint(24, 61)
    small, few = rng.randint(3, 14), rng.randint(2, 12)
    return {
        "n": str(n),
        "n1": str(n1),
        "n2": str(n2),
        "n3": str(rng.randint(40, 190)),
        "n4": str(done),
        "pct4": f"{100 * done / n:.0f}",
        "n5": str(rng.randint(5, 39)),
        "n6": str(rng.randint(8, 32)),
        "n7": str(rng.randint(6, 14)),
        "N6": WORDS[rng.randint(8, 20)].capitalize(),
        "N7": WORDS[rng.randint(6, 18)].capitalize(),
        "Nbig": f"{rng.randint(1200, 48000):,}",
        "Nbig2": f"{rng.randint(2000, 90000):,}",
        "sites": WORDS[rng.randint(3, 20)],
        "Sites": WORDS[rng.randint(3, 20)].capitalize(),
        "pct": str(pct),
        "pct2": str(pct - rng.randint(3, 14)),
        "pct3": str(small + 3),
        "pct5": str(small),
        "pct6": str(rng.randint(71, 96)),
        "p": rng.choice(["0.003", "0.01", "0.02", "0.04", "< 0.001"]).replace("= <", "<"),
        "p2": rng.choice(["0.08", "0.21", "0.34", "0.47", "0.62"]),
        "hr": f"{ratio:.2f}",
        "lo": f"{ratio / spread:.2f}",
        "hi": f"{ratio * spread:.2f}",
        "rate": f"{rng.uniform(1.2, 38):.1f}",
        "r": f"{rng.uniform(0.31, 0.82):.2f}",
        "auc": f"0.{rng.randint(84, 96)}",
        "auc2": f"0.{rng.randint(66, 82)}",
        "weeks": str(rng.choice([8, 12, 16, 24, 26, 48, 52])),
        "months": str(rng.randint(2, 11)),
        "years": WORDS[rng.randint(3, 12)],
        "days": WORDS[few],
        "days2": str(few + rng.randint(9, 30)),
        "hours": str(rng.choice([6, 12, 24, 48, 72])),
        "minutes": str(rng.choice([5, 10, 15, 30])),
        "year": str(year),
        "year2": str(year + rng.randint(2, 7)),
        "month": rng.choice(MONTHS),
        "place": rng.choice(PLACES),
        "conc": str(rng.choice([1, 2, 5, 10, 25, 50])),
        "conc2": str(rng.randint(12, 480)),
        "conc3": str(rng.choice([100, 200, 500])),
        "fold": f"{rng.uniform(1.6, 6.5):.1f}",
        "dosage": str(rng.choice([1, 3, 5, 10, 20, 30])),
        "halflife": f"{rng.uniform(1.8, 31):.1f}",
        "exponent": str(rng.randint(4, 19)),
        "mantissa": f"{rng.uniform(1.1, 9.6):.1f}",
        "rs": str(rng.randint(1_000_000, 99_999_999)),
        "naranjo": str(rng.randint(5, 8)),
        "millions": str(rng.randint(3, 90)),
    }


def draw_person(patients: str, rng: random.Random) -> dict[str, str]:
    ages = {"children": (3, 11), "boys": (4, 14), "adolescents": (12, 18), "older adults": (66, 88)}
    ages |= {"young women": (18, 32), "young adults": (18, 29), "pregnant women": (19, 41)}
    ages |= {"postmenopausal women": (54, 82)}
    person = (
        rng.choice(["girl", "boy"])
        if patients in ("children", "adolescents")
        else rng.choice(["woman", "man"])
    )
    if "women" in patients:
        person = "woman"
    elif patients == "men":
        person = "man"
    elif patients == "boys":
        person = "boy"
    return {"age": str(rng.randint(*ages.get(patients, (29, 78)))), "person": person}


def draw_values(topic: Mapping[str, Any], rng: random.Random) -> dict[str, str]:
    name, unit, low, high = topic["outcome"]
    digits = 2 if high < 1.5 else 1 if high < 100 else 0
    first, second = rng.uniform(low, high), rng.uniform(low, high)
    gap = second - first
    margin = (high - low) * rng.uniform(0.05, 0.2)
    return {
        "outcome": name,
        "unit": unit,
        "v1": f"{first:.{digits}f}",
        "v2": f"{second:.{digits}f}",
        "diff": f"{gap:.{digits}f}",
        "difflo": f"{gap - margin:.{digits}f}",
        "diffhi": f"{gap + margin:.{digits}f}",
    }


def draw_names(topic: Mapping[str, Any], rng: random.Random) -> dict[str, str]:
    def disease(name: str) -> str:
        return f"<d>{name}</d>"

    short = topic["abbreviation"]
    kin, signs, harms = ([*topic[key]] for key in ("kin", "signs", "harms"))
    drugs, genes, compounds, facts = ([*topic[key]] for key in ("drugs", "genes", "compounds", "facts"))
    for names in (kin, signs, harms, drugs, genes, compounds, facts):
        rng.shuffle(names)
    names = {"disease": disease(topic["disease"]), "dis": disease(short or topic["disease"])}
    names["intro"] = names["disease"] + (f" ({disease(short)})" if short else "")
    names |= {
        "kin": disease(kin[0]),
        "kin2": disease(kin[1]),
        "sign": disease(signs[0]),
        "sign2": disease(signs[1]),
    }
    names |= {"harm": disease(harms[0]), "harm2": disease(harms[1])}
    for position, (drug, dose) in enumerate(drugs):
        number = "" if position == 0 else str(position + 1)
        names |= {f"drug{number}": f"<c>{drug}</c>", f"dose{number}": dose}
    names |= {
        "compound": f"<c>{compounds[0]}</c>",
        "gene": f"<i>{genes[0]}</i>",
        "gene2": f"<i>{genes[1]}</i>",
    }
    names |= {"fact": facts[0], "fact2": facts[1], "fact3": facts[2]}
    return names | {key: topic[key] for key in ("patients", "clinic", "pathway", "tissue", "cells", "animal")}


def draw_study(topic: Mapping[str, Any], kind: Mapping[str, Any], rng: random.Random) -> Study:
    """One abstract of a kind of study about a topic."""
    values = draw_names(topic, rng) | draw_values(topic, rng) | draw_numbers(rng)
    values |= draw_person(topic["patients"], rng)
    for name in (
        "disease",
        "kin",
        "sign",
        "sign2",
        "harm",
        "drug",
        "drug2",
        "compound",
        "outcome",
        "pathway",
    ):
        values[name.capitalize()] = capitalised(values[name])
    values["Gene"] = values["gene"]
    introduced = False

    def fill(wording: str) -> str:
        nonlocal introduced
        # The first "{Dis}" of an abstract brings the name with its abbreviation, as abstracts do.
        values["Dis"] = values["dis"] if introduced else values["intro"]
        introduced = introduced or "{Dis}" in wording
        text = wording.removeprefix("?").format_map(values).replace("P = <", "P <")
        return capitalised(text)

    title = kind["titles"][rng.randrange(len(kind["titles"]))]
    sections = []
    for section in kind.get("section", ()):
        sentences = []
        for step in section["steps"]:
            if step[0].startswith("?") and rng.random() < 0.35:
                continue
            sentences.append(fill(rng.choice(step)))
        sections.append(Section(section["label"], section["category"], tuple(sentences)))
    plain = {
        key: read_marks(values[key]).text for key in ("disease", "kin", "drug", "drug2", "compound", "gene")
    }
    return Study(
        topic=topic["disease"],
        publication_type=kind["publication_type"],
        title=capitalised(fill(title)),
        sections=tuple(sections),
        keywords=(plain["disease"], plain["kin"], plain["gene"]),
        chemicals=(plain["drug"], plain["drug2"], plain["compound"]),
    )


def draw_studies(
    topics: Sequence[Mapping[str, Any]], kinds: Sequence[Mapping[str, Any]], count: int, rng: random.Random
) -> Iterator[Study]:
    """`count` studies of each topic, each kind of study about as often as its weight says."""
    deck: list[Mapping[str, Any]] = []
    for topic in topics:
        used: set[str] = set()
        while len(used) < count:
            if not deck:
                deck = [kind for kind in kinds for _ in range(kind["weight"])]
                rng.shuffle(deck)
            kind = deck.pop()
            if kind["kind"] not in used:
                used.add(kind["kind"])
                yield draw_study(topic, kind, rng)


# --- PubMed XML ------------------------------------------------------------------------------------------------------


def element(parent: etree._Element, name: str, text: str = "", **attributes: str) -> etree._Element:
    child = etree.SubElement(parent, name, **attributes)
    if text:
        child.text = text
    return child


def element_with_markup(parent: etree._Element, name: str, text: str, **attributes: str) -> etree._Element:
    """An element whose text holds inline markup."""
    escaped = re.sub(r"&(?!\w+;)", "&amp;", without_gold(text))
    escaped = re.sub(r"<(?![/a-z])", "&lt;", escaped)
    child = etree.fromstring(f"<{name}>{escaped}</{name}>")
    for key, value in attributes.items():
        child.set(key, value)
    parent.append(child)
    return child


def write_date(parent: etree._Element, name: str, year: int, rng: random.Random) -> None:
    date = element(parent, name)
    element(date, "Year", str(year))
    element(date, "Month", f"{rng.randint(1, 12):02d}")
    element(date, "Day", f"{rng.randint(1, 28):02d}")


def new_citation(
    parent: etree._Element, pmid: int, rng: random.Random, version: int = 1
) -> tuple[Any, Any, int]:
    """A PubmedArticle with the parts that every citation has; returns (citation, article, year)."""
    entry = element(parent, "PubmedArticle")
    citation = element(entry, "MedlineCitation", Status="MEDLINE", Owner="NLM")
    element(citation, "PMID", str(pmid), Version=str(version))
    year = rng.randint(2001, 2024)
    write_date(citation, "DateCompleted", year + 1, rng)
    article = element(citation, "Article", PubModel="Print-Electronic")
    journal = element(article, "Journal")
    issue = element(journal, "JournalIssue", CitedMedium="Internet")
    element(issue, "Volume", str(rng.randint(3, 70)))
    element(issue, "Issue", str(rng.randint(1, 12)))
    published = element(issue, "PubDate")
    if rng.random() < 0.2:
        element(published, "MedlineDate", f"{year} {rng.choice(['Jan-Feb', 'May-Jun', 'Spring'])}")
    else:
        element(published, "Year", str(year))
        element(published, "Month", rng.choice(MONTHS)[:3])
    name = rng.choice(JOURNALS)
    element(journal, "Title", name)
    element(journal, "ISOAbbreviation", " ".join(word[:5] for word in name.split() if word[0].isupper()))
    return citation, article, year


def finish_citation(
    citation: Any, article: Any, pmid: int, language: str, publication_type: str, rng: Any
) -> None:
    """What follows title and abstract: authors, language, types, and the identifiers."""
    authors = element(article, "AuthorList", CompleteYN="Y")
    for _ in range(rng.randint(1, 5)):
        author = element(authors, "Author", ValidYN="Y")
        fore = rng.choice(FORE_NAMES)
        element(author, "LastName", rng.choice(FAMILY_NAMES))
        element(author, "ForeName", fore)
        element(author, "Initials", fore[0])
    element(article, "Language", language)
    element(element(article, "PublicationTypeList"), "PublicationType", publication_type, UI="")
    data = element(citation.getparent(), "PubmedData")
    element(data, "PublicationStatus", "ppublish")
    element(element(data, "ArticleIdList"), "ArticleId", str(pmid), IdType="pubmed")


def write_study(
    parent: etree._Element, study: Study, pmid: int, rng: random.Random, version: int = 1
) -> None:
    """A study as a PubmedArticle."""
    citation, article, _ = new_citation(parent, pmid, rng, version)
    element_with_markup(article, "ArticleTitle", study.title)
    if study.sections:
        abstract = element(article, "Abstract")
        for section in study.sections:
            attributes = {"Label": section.label, "NlmCategory": section.category} if section.label else {}
            element_with_markup(abstract, "AbstractText", " ".join(section.sentences), **attributes)
        if rng.random() < 0.25:
            element(
                abstract, "CopyrightInformation", "© The authors. An invented record for testing software."
            )
    finish_citation(citation, article, pmid, "eng", study.publication_type, rng)
    chemicals = element(citation, "ChemicalList")
    for name in study.chemicals:
        chemical = element(chemicals, "Chemical")
        element(chemical, "RegistryNumber", "0")
        element(chemical, "NameOfSubstance", name[0].upper() + name[1:], UI="")
    keywords = element(citation, "KeywordList", Owner="NOTNLM")
    for name in study.keywords:
        element(keywords, "Keyword", name, MajorTopicYN="N")


def write_odd_record(
    parent: etree._Element, record: Mapping[str, str], pmid: int, rng: random.Random
) -> None:
    """A record with another language, a second abstract, a formula, or hardly any text."""
    citation, article, _ = new_citation(parent, pmid, rng)
    element_with_markup(article, "ArticleTitle", record["title"])
    if record["abstract"]:
        element_with_markup(element(article, "Abstract"), "AbstractText", record["abstract"])
    finish_citation(citation, article, pmid, record["language"], "Journal Article", rng)
    if "vernacular" in record:
        element(article, "VernacularTitle", record["vernacular"])
    if "other_abstract" in record:
        other = element(citation, "OtherAbstract", Type="Publisher", Language=record["other_language"])
        element(other, "AbstractText", record["other_abstract"])


def new_set(note: str) -> etree._Element:
    root = etree.Element("PubmedArticleSet")
    root.append(etree.Comment(note))
    return root


def save_xml(root: etree._Element, path: Path, doctype: str | None = None) -> None:
    etree.indent(root, space=" ")
    path.write_bytes(
        etree.tostring(root, xml_declaration=True, encoding="UTF-8", doctype=doctype, pretty_print=True)
    )


NOTE = " Invented citations for testing biosmith: no real study, patient, author or journal is meant. Apache-2.0. "
DOCTYPE = (
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2019//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_190101.dtd">'
)


def reworded(study: Study) -> Study:
    """Almost the same abstract, worded as a preprint: the near-duplicates that one meets in the wild."""

    def change(sentence: str) -> str:
        return capitalised(
            re.sub(r"^We ", "in this study, we ", sentence).replace(" and ", " as well as ", 1)
        )

    first, *others = study.sections
    sentences = (*map(change, first.sentences[:2]), *first.sentences[2:])
    sections = (Section(first.label, first.category, sentences), *others)
    last = sections[-1]
    noted = Section(last.label, last.category, (*last.sentences, "This preprint has not been reviewed."))
    sections = (*sections[:-1], noted)
    return Study(**{**vars(study), "publication_type": "Preprint", "sections": sections})


def write_corpus(
    studies: Sequence[Study], odd: Sequence[Mapping[str, str]], folder: Path, rng: random.Random
) -> None:
    """Two files, as PubMed comes: a baseline, and an update with new versions, duplicates and deletions."""
    baseline, update = new_set(NOTE), new_set(NOTE)
    with_text = [position for position, study in enumerate(studies) if study.sections]
    for position, study in enumerate(studies):
        write_study(baseline, study, FIRST_PMID + position, rng)
    pmid = FIRST_PMID + len(studies)
    for record in odd:
        write_odd_record(update, record, pmid, rng)
        pmid += 1
    chosen = rng.sample(with_text, 12)
    for position in chosen[:4]:  # corrected versions under the old number
        study = studies[position]
        last = study.sections[-1]
        note = "In the first version the units were wrong."
        corrected = Section(last.label, last.category, (*last.sentences, note))
        fixed = Study(**{**vars(study), "sections": (*study.sections[:-1], corrected)})
        write_study(update, fixed, FIRST_PMID + position, rng, version=2)
    for position in chosen[4:7]:  # the same text under a new number
        write_study(update, studies[position], pmid, rng)
        pmid += 1
    for position in chosen[7:10]:  # nearly the same text under a new number
        write_study(update, reworded(studies[position]), pmid, rng)
        pmid += 1
    deleted = element(update, "DeleteCitation")
    for position in chosen[10:]:
        element(deleted, "PMID", str(FIRST_PMID + position), Version="1")
    element(deleted, "PMID", "98999999", Version="1")  # a number that the baseline never had
    save_xml(baseline, folder / "pubmed" / "sample-baseline.xml", DOCTYPE)
    save_xml(update, folder / "pubmed" / "sample-update.xml", DOCTYPE)


# --- JATS ------------------------------------------------------------------------------------------------------------


def write_article(studies: Sequence[Study], facts: Sequence[str], path: Path) -> None:
    """One open-access article in JATS: an abstract, sections, a figure, a table and references."""
    first, *others = studies
    root = etree.Element("article", attrib={"article-type": "research-article"})
    root.append(etree.Comment(NOTE))
    front = element(root, "front")
    journal = element(front, "journal-meta")
    element(element(journal, "journal-title-group"), "journal-title", JOURNALS[0])
    meta = element(front, "article-meta")
    element(meta, "article-id", "99000001", **{"pub-id-type": "pmc"})
    element_with_markup(element(meta, "title-group"), "article-title", first.title)
    abstract = element(meta, "abstract")
    for section in first.sections:
        part = element(abstract, "sec")
        element(part, "title", section.label.capitalize())
        element_with_markup(part, "p", " ".join(section.sentences))
    body = element(root, "body")
    intro = element(body, "sec", **{"sec-type": "intro"})
    element(intro, "title", "Introduction")
    element_with_markup(intro, "p", " ".join(facts[:2]) + ' [<xref rid="r1">1</xref>].')
    element_with_markup(intro, "p", " ".join(facts[2:]))
    for study in others:
        part = element(body, "sec")
        element_with_markup(part, "title", study.title.rstrip("."))
        for section in study.sections:
            element_with_markup(part, "p", " ".join(section.sentences))
    figure = element(body, "fig", id="f1")
    element(figure, "label", "Figure 1")
    element(
        element(figure, "caption"), "p", "Outcome by group. Bars show the mean, whiskers one standard error."
    )
    table = element(body, "table-wrap", id="t1")
    element(table, "label", "Table 1")
    element(element(table, "caption"), "p", "Characteristics of the participants at baseline.")
    rows = element(element(table, "table"), "tbody")
    for cells in (("Age, years", "61.4"), ("Women, %", "47"), ("Smokers, %", "18")):
        row = element(rows, "tr")
        for cell in cells:
            element(row, "td", cell)
    reference = element(element(element(root, "back"), "ref-list"), "ref", id="r1")
    element(
        reference, "mixed-citation", "Okafor A, Weiß G. An invented reference. Acta Fictitia Clinica 2011."
    )
    save_xml(root, path)


# --- the tagging set -------------------------------------------------------------------------------------------------


def to_tags(sentence: str) -> list[tuple[str, str]]:
    """Tokens of a marked-up sentence with BIO tags; words and single punctuation marks are tokens."""
    marked = read_marks(sentence)
    rows = []
    for token in TOKEN.finditer(marked.text):
        tag = "O"
        for start, end, kind in marked.spans:
            if start <= token.start() < end:
                tag = f"{'B' if token.start() == start else 'I'}-{kind}"
        rows.append((token[0], tag))
    return rows


def write_tagging_set(studies: Sequence[Study], path: Path) -> None:
    lines = []
    for study in studies:
        for sentence in study.sentences:
            lines += [f"{token}\t{tag}" for token, tag in to_tags(sentence)] + [""]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def flattened(study: Study) -> Study:
    """The study without superscripts and the like, so that its plain text is beyond doubt."""
    sections = tuple(
        Section(s.label, s.category, tuple(re.sub(r"</?(sup|sub|i)>", "", text) for text in s.sentences))
        for s in study.sections
    )
    title = re.sub(r"</?(sup|sub|i)>", "", study.title)
    return Study(**{**vars(study), "title": title, "sections": sections})


def write_gold(studies: Sequence[Study], folder: Path, rng: random.Random) -> None:
    """The test abstracts twice: as PubMed XML to annotate, and as PubTator with the gold mentions."""
    root, records = new_set(NOTE), []
    for position, study in enumerate(studies):
        pmid = FIRST_PMID + 900 + position
        flat = flattened(study)
        write_study(root, flat, pmid, rng)
        title = read_marks(flat.title)
        abstract = read_marks(" ".join(text for section in flat.sections for text in section.sentences))
        rows = [f"{pmid}|t|{title.text}", f"{pmid}|a|{abstract.text}"]
        for part, shift in ((title, 0), (abstract, len(title.text) + 1)):
            for start, end, kind in part.spans:
                rows.append(f"{pmid}\t{start + shift}\t{end + shift}\t{part.text[start:end]}\t{kind}")
        records.append("\n".join(rows) + "\n")
    save_xml(root, folder / "to-annotate.xml", DOCTYPE)
    (folder / "to-annotate.gold.pubtator").write_text("\n".join(records), encoding="utf-8")


def draw_splits(
    topics: Sequence[Mapping[str, Any]], kinds: Sequence[Mapping[str, Any]], rng: random.Random
) -> dict[str, list[Study]]:
    """Studies for training, development and test; some topics are kept for one split alone."""
    kept = {*ONLY_IN_DEVEL, *ONLY_IN_TEST}
    common = [topic for topic in topics if topic["disease"] not in kept]
    only_devel = [topic for topic in topics if topic["disease"] in ONLY_IN_DEVEL]
    only_test = [topic for topic in topics if topic["disease"] in ONLY_IN_TEST]
    return {
        "train": list(draw_studies(common, kinds, 2, rng)),
        "devel": [*draw_studies(only_devel, kinds, 2, rng), *draw_studies(common[::4], kinds, 1, rng)],
        "test": [*draw_studies(only_test, kinds, 2, rng), *draw_studies(common[2::6], kinds, 1, rng)],
    }


def load(name: str) -> list[dict[str, Any]]:
    """The tables of one file in `source/`."""
    data = tomllib.loads((HERE / "source" / f"{name}.toml").read_text(encoding="utf-8"))
    return next(iter(data.values()))


def main(folder: Path = HERE) -> None:
    """Write all sample files below `folder`."""
    topics, kinds, odd = load("topics"), load("studies"), load("odd_records")
    for name in ("pubmed", "jats", "ner"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    corpus = list(draw_studies(topics, kinds, STUDIES_A_TOPIC, random.Random(f"{SEED} corpus")))
    write_corpus(corpus, odd, folder, random.Random(f"{SEED} citations"))
    rng = random.Random(f"{SEED} article")
    topic = next(t for t in topics if t["disease"] == "chronic kidney disease")
    wanted = ("randomised trial", "cell study", "animal study", "review")
    parts = [draw_study(topic, next(k for k in kinds if k["kind"] == name), rng) for name in wanted]
    write_article(parts, topic["facts"], folder / "jats" / "sample-article.nxml")
    with_text = [kind for kind in kinds if kind.get("section")]
    splits = draw_splits(topics, with_text, random.Random(f"{SEED} tagging"))
    for name, studies in splits.items():
        write_tagging_set(studies, folder / "ner" / f"{name}.tsv")
    write_gold(splits["test"], folder, random.Random(f"{SEED} gold"))


if __name__ == "__main__":
    main()
