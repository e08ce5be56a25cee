"""What reruns after a real `dvc repro` when one more view of the teacher is encoded, and what does not."""


def test_one_more_view_is_encoded_and_fitted_and_trains_scores_and_gates_nothing_again(project):
    project.params["encode"]["views"].append("cls")
    ran, _ = project.repro()
    sets = ("corpus", "wordnet", "back_translation", "eval", "finetune")
    # The report writes down all settings and shows the times of encode and fit_pca.
    assert ran == {*(f"encode@{name}" for name in sets), "fit_pca", "report"}
    for name in sets:
        assert (project.root / f"data/vectors/{name}/cls/manifest.json").exists()
    assert (project.root / "data/pca/cls.safetensors").exists()


def test_a_student_of_the_new_view_runs_no_other_students_stages(project):
    project.params["students"]["potion"]["view"] = "cls"
    ran, _ = project.repro("distill@hpd", "distill@potion", "finetune@hpd", "gate@wordnet", "mine")
    assert ran == {"distill@potion"}
