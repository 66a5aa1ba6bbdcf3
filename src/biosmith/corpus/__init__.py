"""Raw files to clean, de-duplicated Parquet shards with a manifest."""
