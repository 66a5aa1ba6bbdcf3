"""Concept identifiers as the formats spell them: one string for what may be several concepts.

`D003110|D009369` and `D001943+D010051` (composite mentions), `6239;252961` and `D003866,D001523` (ambiguous ones)
are lists; `c|SUB|G|Ex2+860|C` and `rs2234671;VariantGroup:0` are one variant each. `-`, `-1` and nothing mean that
the mention is linked to no concept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_SEPARATORS = re.compile(r"\s*[|;,+]\s*")
# D003110, MESH:D003110, CHEBI:17478, OMIM:211100, rs123, 9606, UMLS:C0012, CVCL_0030
_IDENTIFIER = re.compile(r"(?:[A-Za-z]+[:_#]\s?)*[A-Za-z]{0,4}\d+(?:\.\d+)?", re.ASCII)
# What tmVar appends to a variant: facts of the variant, not further concepts.
_OF_A_VARIANT = re.compile(
    r";(?=(?:VariantGroup|CorrespondingGene|CorrespondingSpecies|OriginalGene|Gene|RS#|Disease|HGVS):)"
)
_NONE = ("", "-", "-1")


def split_identifiers(spelled: str) -> tuple[str, ...]:
    """The identifiers in a string; a separator counts only where all parts look like identifiers.

    >>> split_identifiers("D003110|D009369"), split_identifiers("p|SUB|R|620|W"), split_identifiers("-1")
    (('D003110', 'D009369'), ('p|SUB|R|620|W',), ())
    """
    spelled = spelled.strip()
    if spelled in _NONE:
        return ()
    variant = _OF_A_VARIANT.split(spelled, maxsplit=1)
    if len(variant) > 1 and variant[0]:
        return (variant[0],)
    parts = _SEPARATORS.split(spelled)
    if len(parts) > 1 and all(_IDENTIFIER.fullmatch(part) or part in _NONE[1:] for part in parts):
        return tuple(dict.fromkeys(part for part in parts if part not in _NONE))
    return (spelled,)


def join_identifiers(ids: Sequence[str]) -> str:
    """One string for several identifiers, as PubTator 3 spells them."""
    return ";".join(ids)
