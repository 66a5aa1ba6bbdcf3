"""Questions over paragraphs in the JSON of SQuAD 1.1 and 2.0 (Rajpurkar et al., 2016, 2018): SQuAD, XQuAD, COVID-QA.

A paragraph is a document with one passage, named `TITLE-N` (the N-th paragraph of its article; `article-N` where
articles have no title). The questions are its infon `questions`, as JSON: id, question, and whether it is impossible.
Every reference answer is a mention of type "answer" with the question's id as the infon `question`. An answer that
begins or ends with white space that `answer_start` does not count (COVID-QA) is read without it, and so is a paragraph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO, Any

import ijson

from biosmith.errors import shorten
from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Document, Mention, Passage
from biosmith.text.formats.mentions import place_mention
from biosmith.text.formats.offsets import lay_out

NAME = "squad"
SUFFIXES = (".squad.json", ".json")

Spans = list[tuple[int, int]]


def looks_like(head: bytes) -> bool:
    """Whether JSON begins that has paragraphs with a context and questions."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return (
        start[:1] == b"{" and b'"paragraphs"' in head and re.search(rb'"(context|qas)"\s*:', head) is not None
    )


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Stream the paragraphs, one article in memory at a time; what is malformed goes to `rejects`."""
    number = 0
    try:
        for number, article in enumerate(
            ijson.items(files.JsonStream(stream, rejects, file), "data.item", use_float=True), 1
        ):
            paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
            if not isinstance(paragraphs, list):
                rejects.add(file, f"article {number}", "is no article of SQuAD", shorten(article))
                continue
            title = str(article.get("title") or f"article-{number}")
            for index, paragraph in enumerate(paragraphs, 1):
                id = f"{title}-{index}"
                try:
                    yield _paragraph(id, paragraph, rejects, file)
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    rejects.add(file, id, "is no paragraph of SQuAD", f"{error!r} in {shorten(paragraph)}")
        if not number:
            rejects.add(file, "file", 'has no articles, which are in the list "data"')
    except ijson.JSONError as error:
        reason = str(error).split("\n", 1)[0].strip()
        rejects.add(file, f"after article {number}", f"broken JSON: {reason}")


def _paragraph(id: str, paragraph: dict[str, Any], rejects: Rejects, file: str) -> Document:
    text = paragraph["context"]
    questions, answers = [], []
    for question in paragraph["qas"]:
        name = str(question["id"])
        impossible = {"impossible": True} if question.get("is_impossible") else {}
        questions.append({"id": name, "question": question["question"], **impossible})
        answers += [(name, _locate(answer, text)) for answer in question.get("answers") or ()]
    layout = lay_out([{"text": text}], [answer for _, answer in answers])
    text = layout.texts[0]
    for reason, what in layout.errors:
        rejects.add(file, id, reason, what)
    mentions = [
        mention
        for (name, answer), fragments in zip(answers, layout.fragments, strict=True)
        if (mention := _mention(name, answer["text"], fragments, text, rejects, file)) is not None
    ]
    infons = {"questions": json.dumps(questions, ensure_ascii=False)}
    return Document(id, text, (Passage("paragraph", text),), tuple(mentions), infons=infons)


def _locate(answer: dict[str, Any], text: str) -> dict[str, Any]:
    """The answer in the shape of a BioC annotation."""
    stated, start = answer["text"], int(answer["answer_start"])
    if not text.startswith(stated, start):
        stated = stated.strip()
    return {"text": stated, "locations": [{"offset": start, "length": len(stated)}]}


def _mention(
    question: str, stated: str, fragments: Spans, text: str, rejects: Rejects, file: str
) -> Mention | None:
    return place_mention(
        text,
        fragments,
        stated,
        rejects=rejects,
        file=file,
        record=f"question {question}",
        type="answer",
        infons={"question": question},
    )
