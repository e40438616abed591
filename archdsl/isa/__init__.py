"""The tensor PE array's instruction set as data, its encoder, and what a program image is."""
