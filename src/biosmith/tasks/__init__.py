"""Fine-tuning: TransformInput -> encoder -> Featurizer -> Predict (PubMedBERT, section 5)."""
