"""Reference interpreters: what a module of each level computes, with NumPy."""
