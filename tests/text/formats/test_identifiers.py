"""Concept identifiers: when a string is a list of them."""

from __future__ import annotations

import pytest

from biosmith.text.formats.identifiers import split_identifiers


@pytest.mark.parametrize(
    ("spelled", "ids"),
    [
        ("D003110|D009369", ("D003110", "D009369")),  # composite, BioCreative V CDR
        ("D001943+D010051", ("D001943", "D010051")),  # composite, NCBI disease
        ("6239;252961", ("6239", "252961")),  # ambiguous, PubTator 3
        ("MESH:D010710,MESH:D012965", ("MESH:D010710", "MESH:D012965")),
        ("OMIM:610102|OMIM:217000", ("OMIM:610102", "OMIM:217000")),
        (" D008661", ("D008661",)),
        ("c|SUB|G|Ex2+860|C", ("c|SUB|G|Ex2+860|C",)),  # one variant: its parts are no identifiers
        ("p|DEL|439_443|", ("p|DEL|439_443|",)),
        ("rs2234671;VariantGroup:0", ("rs2234671",)),  # facts of a variant are no further concepts
        ("c|SUB|C|892|T;Gene:4166;RS#:886052321;Disease:D003317", ("c|SUB|C|892|T",)),
        ("D003110|-1", ("D003110",)),
        ("-1", ()),
        ("-", ()),
        ("", ()),
    ],
)
def test_a_separator_counts_only_between_identifiers(spelled: str, ids: tuple[str, ...]) -> None:
    assert split_identifiers(spelled) == ids
