"""How real numbers and integers stand for each other: what the quantising passes share."""
