"""Lines of faulty files."""


def lines(*rows):
    return "".join("\t".join(row) + "\n" for row in rows)
