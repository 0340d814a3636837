"""A run taken out of its file: as one document, or as a file of its own to debug against."""
