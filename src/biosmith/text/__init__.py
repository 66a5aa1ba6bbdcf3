"""The one document model, sentence splitting, and every file format."""
