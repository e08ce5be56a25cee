"""What reruns after a real `dvc repro` on the hashing teacher, and what does not."""

from pathlib import Path

from project import sentence


def test_a_second_run_runs_nothing(project):
    ran, said = project.repro()
    assert ran == set(), said


def test_editing_a_student_reruns_its_stages_and_the_report(project):
    time = project.root / "data/timings/distill_potion.json"
    took = time.read_bytes()
    scores = project.root / "reports/metrics/potion.json"
    scored = scores.read_bytes()
    project.params["students"]["potion"]["train"]["lr"] = 2e-3
    stages = {f"{stage}@potion" for stage in ("distill", "finetune", "evaluate", "export")}
    ran, _ = project.repro("--dry")
    assert ran == {*stages, "significance", "footprint", "search_speed", "report"}
    ran, _ = project.repro("evaluate@potion")
    assert ran == stages - {"export@potion"}
    assert scores.read_bytes() != scored
    project.params["students"]["potion"]["train"]["lr"] = 1e-3
    ran, _ = project.repro()
    assert ran == set()  # DVC's run-cache has them
    assert scores.read_bytes() == scored
    assert time.read_bytes() == took


def test_editing_the_gate_reruns_neither_augment_nor_encode(project):
    project.params["gate"]["wordnet"] = {"min_similarity": 0.1}
    ran, _ = project.repro()
    assert ran == {"gate@wordnet", "report"}  # which keeps all texts that there are: none


def test_editing_the_fine_tuning_keeps_the_distilled_student(project):
    project.params["students"]["hpd"]["finetune"]["temperature"] = 0.1
    ran, _ = project.repro("--dry", "finetune@hpd")
    assert ran == {"finetune@hpd"}


def test_another_teacher_and_back_encodes_nothing_twice(project):
    sets = ("encode@corpus", "encode@eval")
    before = published(project.root)
    project.params["teacher"]["seed"] = 1
    ran, said = project.repro(*sets)
    assert ran == set(sets)
    assert "encode corpus: 400 encoded, 0 taken from the store" in said
    assert published(project.root) != before

    del project.params["teacher"]["seed"]
    # DVC's run-cache would not even start the stage: without it, the store alone has to answer.
    ran, said = project.repro("--no-run-cache", *sets)
    assert ran == set(sets)
    assert "encode corpus: 0 encoded, 400 taken from the store" in said
    assert published(project.root) == before
    ran, _ = project.repro(*sets)
    assert ran == set()


def test_a_grown_corpus_encodes_its_new_texts_alone(project):
    texts = project.root / "data/raw/texts.txt"
    texts.write_text("\n".join([texts.read_text(), *(sentence(50_000 + i) for i in range(5))]))
    _, said = project.repro("encode@corpus")
    assert "encode corpus: 5 encoded, 400 taken from the store" in said


def published(root: Path) -> dict[str, bytes]:
    """Every file of the published vectors."""
    files = (root / "data/vectors").rglob("*")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files if path.is_file()}
