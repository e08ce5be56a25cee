"""Lines of faulty files."""

ROW = "of the data: "
"""Behind the number of a row."""


def lines(*rows):
    return "".join("\t".join(row) + "\n" for row in rows)
