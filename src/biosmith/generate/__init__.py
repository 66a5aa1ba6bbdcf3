"""Sentences written from a latent space: reconstructed, interpolated, drawn from the prior, by analogy."""
