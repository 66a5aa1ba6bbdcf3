"""Scores as each benchmark defines them; every function takes plain values and knows nothing of models."""
