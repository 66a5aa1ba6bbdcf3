"""Ask annotations a question in SQL: which drugs are written about together with which diseases?

    python examples/ask_annotations.py                         # the sample's gold annotations
    python examples/ask_annotations.py annotated.parquet ...   # what `biosmith annotate --format parquet` made

`biosmith annotate` writes Parquet with one row a document: passages, mentions and relations are lists of structs that
DuckDB takes apart with `unnest`. Many shards are asked like one file, and only the columns that a question needs are
read. The pairs are ranked by how much more often they share a document than they would by chance (pointwise mutual
information, Church & Hanks 1990), among those that share enough of them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import duckdb

import biosmith

SAMPLE = Path(__file__).parent / "data" / "to-annotate.gold.pubtator"
LEAST = 2  # documents that mention both

# A concept is its identifier where mentions are linked (--link), else its name.
QUESTION = """
with mention as (
    select id as document, m.type as type, coalesce(m.ids[1], lower(m.text)) as concept
    from (select id, unnest(mentions) as m from read_parquet($files))
),
present as (select distinct document, type, concept from mention),
seen as (select type, concept, count(*) as documents from present group by all),
pair as (
    select c.concept as chemical, d.concept as disease, count(*) as together
    from present c join present d on c.document = d.document
    where c.type = 'Chemical' and d.type = 'Disease'
    group by all
    having count(*) >= $least
),
everything as (select count(*) as documents from read_parquet($files))
select chemical, disease, together,
       log2(together::double * e.documents / (c.documents * d.documents)) as information
from pair, everything e
join seen c on c.type = 'Chemical' and c.concept = pair.chemical
join seen d on d.type = 'Disease' and d.concept = pair.disease
order by information desc, together desc, chemical, disease
limit 15
"""


def ask(files: list[str]) -> list[tuple[str, str, int, float]]:
    """Chemical, disease, documents that mention both, and their pointwise mutual information in bits."""
    return duckdb.execute(QUESTION, {"files": files, "least": LEAST}).fetchall()


def main(files: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if not files:
            sample = Path(folder) / "sample.parquet"
            biosmith.write(biosmith.read(SAMPLE), sample)
            files = [str(sample)]
        answer = ask(files)
    if not answer:
        sys.exit("no chemical and disease are mentioned together; are there mentions of both types?")
    print(f"{'chemical':24} {'disease':32} {'documents':>9} {'bits':>6}")
    for chemical, disease, together, information in answer:
        print(f"{chemical[:24]:24} {disease[:32]:32} {together:9,} {information:6.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
