"""How much dvc.yaml and dvc.lock say, which DVC parses at every command."""

from dvc_contract import CODE, stages
from ruamel.yaml import YAML

from pipeline.params.load import load


def test_dvc_yaml_and_its_lock_stay_small(repository):
    """The lock names the code of each stage: at most 350 entries for five students; classifiers apart."""
    params = load(repository / "params.yaml")
    students, shared, of_students = params.students, 0, 0
    for name, _, declared in stages(repository):
        code = sum(path.startswith(CODE) for path in declared)
        if name.partition("@")[2] in students:
            of_students += code
        elif name.partition("@")[2] not in params.classifiers:
            shared += code
    assert shared + 5 * of_students / len(students) <= 350
    text = (repository / "dvc.yaml").read_text()
    assert len(text.splitlines()) <= 420
    written = YAML(typ="safe").load(text)["stages"].values()
    named = [dep for stage in written for dep in stage.get("do", stage)["deps"] if dep.startswith(CODE)]
    assert 100 < len(named) <= 164
