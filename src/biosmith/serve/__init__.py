"""Annotation as a service: a REST interface with an OpenAPI document, and a page for people.

>>> from biosmith.serve.server import serve
>>> serve(["runs/ner-disease"], port=8000)  # doctest: +SKIP
"""
