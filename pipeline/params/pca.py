"""`pca:`: principal components of the cached vectors."""

from pipeline.params.base import Block, Count


class Pca(Block):
    """Principal components of the cached training vectors, fitted for every view."""

    max_rows: Count | None = None
    """Fit on this many vectors, the first by text id; null: all. The released HPD code takes 40,000."""
    centre: bool = True
    """Subtract the mean (HPD sec. 3); the released HPD code forgets to, after a fit of centred vectors."""
