"""The shapes of requests and answers, from which the OpenAPI document is made."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Text = Annotated[str, Field(max_length=20_000_000)]
DocumentId = Annotated[str, Field(max_length=1000)]
Infons = Annotated[dict[str, str], Field(description="whatever else the source says")]
Score = Annotated[float, Field(allow_inf_nan=False)]  # Python's JSON takes NaN and Infinity, others do not
Position = Annotated[int, Field(ge=0, le=2**31 - 1, description="in Unicode code points of the document")]

# Those of biosmith whose documents are whole in one file of text.
ReadFormat = Literal[
    "medline", "medline-text", "jats", "cord19", "bioc-xml", "bioc-json", "pubtator", "ddi", "bc2gm", "squad", "pubmedqa",
    "conll", "table", "csv", "jsonl", "plain",
]  # fmt: skip
WriteFormat = Literal["bioc-json", "bioc-xml", "pubtator", "jsonl", "conll", "html"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class PassageIn(_Strict):
    """A stretch of a document's text; without offsets passages are laid out one after the other."""

    text: Text
    kind: Annotated[str, Field(max_length=1000)] = "paragraph"
    offset: Position | None = None


class DocumentIn(_Strict):
    """A document: a text, or title, abstract and body, or passages."""

    id: DocumentId = ""
    text: Text | None = None
    title: Text | None = None
    abstract: Text | None = None
    body: list[Text] | None = None
    passages: list[PassageIn] | None = None

    @model_validator(mode="after")
    def _has_text(self) -> DocumentIn:
        if not any(v is not None for v in (self.text, self.title, self.abstract, self.body, self.passages)):
            raise ValueError("a document needs text, title, abstract, body or passages")
        return self


class AnnotateRequest(_Strict):
    """One text, or several documents."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"text": "Gout was treated with allopurinol."}]},
    )
    text: Text | None = None
    documents: list[DocumentIn] | None = None

    @model_validator(mode="after")
    def _has_one(self) -> AnnotateRequest:
        if (self.text is None) == (self.documents is None):
            raise ValueError("give either text or documents")
        return self


class Passage(BaseModel):
    """A stretch of a document's text."""

    kind: str
    text: str
    offset: int
    label: str = ""
    infons: Infons = {}


class Mention(BaseModel):
    """A named thing; `text` is the document's text from `start` to `end` (per fragment, joined by a space)."""

    start: int
    end: int
    text: str
    type: str
    score: Score | None
    ids: list[str] = []
    fragments: list[list[int]] = []
    id: str = ""
    infons: Infons = {}


class Argument(BaseModel):
    """One side of a relation: its role, and the id of a mention or concept."""

    role: str
    target: str


class Relation(BaseModel):
    """A typed link between mentions or concepts."""

    type: str
    arguments: list[Argument]
    score: Score | None = None
    id: str = ""
    infons: Infons = {}


class Document(BaseModel):
    """An annotated document. Offsets are Unicode code points of `text`, the end exclusive."""

    id: str
    text: str
    passages: list[Passage] = []
    mentions: list[Mention] = []
    relations: list[Relation] = []
    infons: Infons = {}


class Failed(BaseModel):
    """A document that could not be read or annotated; the others are not affected."""

    index: int | None = Field(description="among the documents sent; null for records of a file")
    id: str
    reason: str


class AnnotateAnswer(BaseModel):
    """Annotated documents in the order they were sent, and those that failed."""

    documents: list[Document]
    failed: list[Failed]


class BiocCollection(BaseModel):
    """The answer in the format bioc-json; BioC's own definition says what is in it."""

    model_config = ConfigDict(extra="allow")
    documents: list[dict[str, Any]]


class ConvertRequest(BaseModel):
    """Annotated documents as `annotate` answers them, perhaps fewer or with fewer mentions."""

    model_config = ConfigDict(extra="forbid")
    documents: Annotated[list[Document], Field(min_length=1)]


class Model(BaseModel):
    """A model that this service runs."""

    name: str
    task: str
    types: list[str]
    made: dict[str, Any] = Field(description="from its manifest: version, date, what it was tuned from")


class Models(BaseModel):
    """The models, all of which read every document."""

    models: list[Model]
    version: str


class Formats(BaseModel):
    """The formats that files are read in, and answers are written in."""

    read: list[str]
    write: list[str]


class Health(BaseModel):
    """Whether the service works."""

    status: Literal["ok"]
    waiting_characters: int
    requests: int
    documents: int


class Error(BaseModel):
    """Why a request was refused."""

    detail: str | list[dict[str, Any]]
