"""Softmax and normalisation of rows as steps of the vector unit."""
