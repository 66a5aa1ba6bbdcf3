"""One encoder with its switches, the heads, and conversion to and from Hugging Face."""
