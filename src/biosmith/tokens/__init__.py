"""Vocabularies, fragmentation reports, and the memory-mapped token store."""
