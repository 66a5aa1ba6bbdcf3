"""TransformInput of relations: dummies, markers or the text as it is (PubMedBERT, section 5.2 and Table 12)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from biosmith.errors import BadInput, UsageError
from biosmith.tasks.instances import Entity, Instance
from biosmith.tasks.settings import RelationSettings

# Dummies of prepared files: @CHEMICAL$, @GENE$, and @CHEM-GENE$ where the two mentions overlap.
DUMMY = re.compile(r"@[A-Za-z][\w/-]*\$")

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Presented:
    """A text as the model gets it.

    Attributes:
        text: with dummies or markers in it.
        mentions: where the two mentions stand now (the same place twice where one dummy stands for both).
        starts: where their opening markers stand; those of the mentions where there are no markers.
    """

    text: str
    mentions: tuple[Place, Place]
    starts: tuple[Place, Place]


def present(instance: Instance, settings: RelationSettings) -> Presented:
    """The text of an instance under the settings.

    Raises:
        UsageError: the file is dummified or marked already, and the settings ask for another form.
        BadInput: the instance has neither two entities nor dummies or markers, or entities outside its text.
    """
    is_prepared = bool(instance.original) and settings.text == "dummies"
    if not instance.entities or is_prepared:
        return _prepared(instance, settings)
    text = instance.original or instance.text
    first, second = _two_entities(instance, text)
    if settings.text == "original":
        places = (first.start, first.end), (second.start, second.end)
        return Presented(text, places, places)
    if settings.text == "dummies":
        return dummify(text, first, second, settings.dummy)
    return mark(text, first, second, settings.markers)


def dummy_pairs(instances: Sequence[Instance], settings: RelationSettings) -> tuple[tuple[str, str], ...]:
    """The pairs of types whose dummies instances have, each in alphabetical order; none where the model sees no dummies."""
    if settings.text != "dummies":
        return ()
    found: set[tuple[str, str]] = set()
    for instance in instances:
        is_prepared = bool(instance.original) or not instance.entities
        shown = [d[1:-1] for d in DUMMY.findall(instance.text)] if is_prepared else []
        types = shown or [entity.type for entity in instance.entities]
        if len(types) == 2:  # one dummy stands for two mentions that overlap
            found.add((min(types), max(types)))
    return tuple(sorted(found))


def dummify(text: str, first: Entity, second: Entity, dummy: str = "@{type}$") -> Presented:
    """Each mention replaced by the name of its type; overlapping ones together by one dummy of both types.

    >>> dummify("aspirin inhibits COX-1", Entity(0, 7, "CHEMICAL"), Entity(17, 22, "GENE")).text
    '@CHEMICAL$ inhibits @GENE$'
    """
    if first.start < second.end and second.start < first.end:
        start, end = min(first.start, second.start), max(first.end, second.end)
        both = dummy.replace("{type}", f"{first.type}-{second.type}")
        place = (start, start + len(both))
        return Presented(text[:start] + both + text[end:], (place, place), (place, place))
    ordered = sorted((first, second))
    names = [dummy.replace("{type}", entity.type) for entity in ordered]
    a, b = ordered
    made = text[: a.start] + names[0] + text[a.end : b.start] + names[1] + text[b.end :]
    second_at = a.start + len(names[0]) + b.start - a.end
    places = [(a.start, a.start + len(names[0])), (second_at, second_at + len(names[1]))]
    mentions = (places[ordered.index(first)], places[ordered.index(second)])
    return Presented(made, mentions, mentions)


def mark(text: str, first: Entity, second: Entity, markers: Sequence[str]) -> Presented:
    """Markers around each mention; nested and overlapping ones keep all four.

    >>> mark("aspirin inhibits COX-1", Entity(0, 7, ""), Entity(17, 22, ""), ("<<", ">>", "[[", "]]")).text
    '<< aspirin >> inhibits [[ COX-1 ]]'
    """
    # (place, closings before openings, the inner of two closings and the outer of two openings first, which, marker)
    events = []
    for which, entity in enumerate((first, second)):
        length = entity.end - entity.start
        events.append((entity.start, 1, -length, which, f"{markers[2 * which]} "))
        events.append((entity.end, 0, length, -which, f" {markers[2 * which + 1]}"))
    made, at = "", 0
    opened: dict[int, Place] = {}
    closed: dict[int, int] = {}
    for place, is_opening, _, which, marker in sorted(events):
        made += text[at:place]
        at = place
        if is_opening:
            opened[which] = (len(made), len(made) + len(marker) - 1)
        else:
            closed[-which] = len(made)
        made += marker
    mentions = [(opened[which][1] + 1, closed[which]) for which in (0, 1)]
    return Presented(made + text[at:], (mentions[0], mentions[1]), (opened[0], opened[1]))


def _two_entities(instance: Instance, text: str) -> tuple[Entity, Entity]:
    if len(instance.entities) != 2:
        raise _bad(instance, f"two entities are expected, not {len(instance.entities)}")
    for entity in instance.entities:
        if not 0 <= entity.start < entity.end <= len(text):
            raise _bad(instance, f"the entity {tuple(entity)} does not lie in the text")
    return instance.entities[0], instance.entities[1]


def _prepared(instance: Instance, settings: RelationSettings) -> Presented:
    """A text that was dummified or marked by whoever made the file."""
    dummies = [m.span() for m in DUMMY.finditer(instance.text)]
    marked = None if dummies else _find_markers(instance.text, settings.markers)
    form = "dummies" if dummies else "markers" if marked else None
    if form is not None and settings.text != form:
        raise UsageError(
            f"{instance.file or 'the data'} has {form} in its texts already, and the mentions cannot be had from them: "
            f"text={settings.text} is not possible; take text={form}, or make instances with entities from the raw "
            "corpus (biosmith data prepare)"
        )
    if marked is not None:
        return marked
    if not dummies:
        if settings.features in ("mentions", "starts") or settings.text != "original":
            raise _bad(instance, "has neither entities nor dummies (@GENE$) nor markers in its text")
        return Presented(instance.text, ((0, 0), (0, 0)), ((0, 0), (0, 0)))
    mentions = (dummies[0], dummies[1] if len(dummies) > 1 else dummies[0])
    return Presented(instance.text, mentions, mentions)


def _find_markers(text: str, markers: Sequence[str]) -> Presented | None:
    starts, mentions = [], []
    for opening, closing in (markers[:2], markers[2:]):
        at = text.find(opening)
        begin = at + len(opening)
        end = text.find(closing, begin)
        if at < 0 or end < 0:
            return None
        starts.append((at, begin))
        mentions.append((begin, end))
    return Presented(text, (mentions[0], mentions[1]), (starts[0], starts[1]))


def _bad(instance: Instance, reason: str) -> BadInput:
    record = f"line {instance.line}" if isinstance(instance.line, int) else str(instance.line)
    return BadInput(
        instance.file or "instances", reason, record=f"{record} ({instance.id})", value=instance.text
    )
