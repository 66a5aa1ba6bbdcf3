"""One encoder with its switches, the heads, and conversion to and from Hugging Face.

`load_encoder`, `load_pretraining_model` and `save_model` read and write Hugging Face folders; `encoder` in
`biosmith.models.embedding` turns texts into vectors.
"""
