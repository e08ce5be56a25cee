"""What reruns after a real `dvc repro` on the hashing teacher, and what does not."""


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
    assert ran == {"look", *stages, "significance", "footprint", "search_speed", "report"}
    ran, _ = project.repro("evaluate@potion")
    assert ran == {"look", *stages} - {"export@potion"}
    assert scores.read_bytes() != scored
    project.params["students"]["potion"]["train"]["lr"] = 1e-3
    ran, _ = project.repro()
    assert ran == set()  # DVC's run-cache has them
    assert scores.read_bytes() == scored
    assert time.read_bytes() == took


def test_editing_the_fine_tuning_keeps_the_distilled_student(project):
    project.params["students"]["hpd"]["finetune"]["temperature"] = 0.1
    ran, _ = project.repro("--dry", "finetune@hpd")
    assert ran == {"look", "finetune@hpd"}
