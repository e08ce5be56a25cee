from pipeline.core import machine


def test_the_processor_is_called_what_the_system_calls_it(tmp_path, monkeypatch):
    listed = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "CPU_INFO", listed)
    listed.write_text("processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nmodel name\t: another\n")
    assert machine.cpu() == "Fast CPU @ 3 GHz"
    listed.unlink()
    monkeypatch.setattr("platform.processor", lambda: "")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert machine.cpu() == "arm64"


def test_there_is_a_cpu():
    assert machine.cpus() >= 1
