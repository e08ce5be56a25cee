"""Heat maps of matrices as PNG, equal for equal numbers; an SVG would take a rectangle for every cell."""

import base64

import numpy as np
from numpy.typing import NDArray

CELL = 4


def heatmap(matrix: NDArray[np.floating], limit: float) -> bytes:
    """A PNG of 4 pixels a cell: blue for -limit and below, white for 0, orange for limit and above.

    Args:
        matrix: (rows, columns), the first row on top.
        limit: positive.
    """
    import altair as alt
    import vl_convert

    rows, columns = matrix.shape
    cells = [
        {"row": row, "column": column, "value": float(np.clip(matrix[row, column], -limit, limit))}
        for row in range(rows)
        for column in range(columns)
    ]
    chart = (
        alt.Chart(alt.Data(values=cells))
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=None).scale(paddingInner=0, paddingOuter=0),
            y=alt.Y("row:O", axis=None).scale(paddingInner=0, paddingOuter=0),
            color=alt.Color("value:Q", legend=None).scale(
                scheme="blueorange", domain=[-limit, limit], domainMid=0
            ),
        )
        .properties(width=columns * CELL, height=rows * CELL)
        .configure(padding=0, background="#ffffff", view={"stroke": None})
    )
    return vl_convert.vegalite_to_png(chart.to_dict(), allowed_base_urls=[])


def data_uri(png: bytes) -> str:
    """A PNG that needs no file beside the page."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
