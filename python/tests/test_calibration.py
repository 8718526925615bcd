# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""How communicating operators choose their form: by which figures, and when those are measured. The driver
is a fake one, whose clock shows a millisecond more at each event."""

import json
import textwrap

import pytest
from test_cli import tilery  # noqa: F401
from test_devices import fake

FIGURES = {"version": 6, "ranks": 2, "sustained": 700e6}
for _op, _forms in {"all_gather": ("flagged", "push", "copies"), "all_reduce": ("flagged", "one_shot"),
                    "link": ("copies",)}.items():
    for _number, _form in enumerate(_forms, 1):
        FIGURES |= {f"{_op}.{_form}.{bytes}": 10 * _number + bytes / (1000 * _number)
                    for bytes in (1 << 10, 1 << 20)}
FIGURES |= {f"ag_gemm.{form}.{term}": value for form, start in (("copies", 5), ("instances", 500))
            for term, value in (("start", start), ("factor", 1), ("exposed", 0.5))}
# x is a rank's part of 1 MiB, or a smaller one.
BODY = '''
def body():
    n = 1 << 19
    x, out, small = (ty.zeros(size, "bf16", device="cuda") for size in (n, 2 * n, 512))
    a, b, c, none = (ty.zeros((rows, 512), "bf16", device="cuda") for rows in (64, 512, 128, 0))
    {code}

def spawned():
    ty.spawn(body, ranks={ranks}, device="cuda", heap_bytes=1 << 30)

def launched():
    return [fake.fake_cuda_launch_at(at).kernel.decode() for at in range(fake.fake_cuda_launch_count())]
'''
def run(code: str, after: str = "spawned()", ranks: int = 2, **environment) -> str:
    body = textwrap.indent(textwrap.dedent(code).strip(), "    ").strip()
    return fake(BODY.format(code=body, ranks=ranks) + after, **environment)


def figures(tmp_path, **changed) -> str:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(FIGURES | changed))
    return str(path)


def test_figures_of_a_file_choose(tmp_path):
    shown = run('''
        explained = [ty.ops.explain("all_gather", x, out), ty.ops.explain("all_reduce", small, small),
                     ty.ops.explain("ag_gemm", a, b, c), ty.ops.explain("ag_gemm", none, b, none)]
        if ty.rank() == 0:
            print(explained)
        ''', TILERY_CALIBRATION=figures(tmp_path))
    gathered, reduced, product, nothing = eval(shown)
    mega = 1 << 20
    assert gathered == {"flagged": 10 + mega / 1000, "push": 20 + mega / 2000,
                        "copies": pytest.approx(30 + mega / 3000), "chosen": "copies"}
    assert reduced == {"flagged": 11.024, "one_shot": 20.512, "chosen": "flagged"}
    assert set(product) == {"instances", "copies", "unfused", "chosen"} and product["chosen"] == "unfused"
    assert product["instances"] > 500 > product["copies"]
    assert nothing == {"chosen": None}


def test_a_call_takes_the_form_that_was_explained(tmp_path):
    call = "ty.ops.all_gather(x, out)"
    after = "spawned()\nprint(*sorted(set(launched())))"
    assert run(call, after, TILERY_CALIBRATION=figures(tmp_path)) == "collect open_call\n"
    slow = {key: 1e6 for key in FIGURES if key.startswith("all_gather.copies.")}
    assert run(call, after, TILERY_CALIBRATION=figures(tmp_path, **slow)) == "all_gather_push\n"


# From 1 KiB of a rank on; a peer's memory is reached at once, but not as fast as by copy engines.
def choices(tmp_path, copies: int) -> list:
    """Forms of all_gather that ranks choose where copy engines bring so many bytes a microsecond."""
    peers = {f"all_gather.direct.{bytes}": 22 + bytes / 2500 for bytes in (1 << 10, 1 << 20)}
    engines = {f"all_gather.copies.{bytes}": 30 + bytes / copies for bytes in (1 << 10, 1 << 20)}
    ranks = eval(run('''
        return [ty.ops.explain("all_gather", ty.zeros(512 << at, "bf16", device="cuda"),
                               ty.zeros(1024 << at, "bf16", device="cuda"))["chosen"] for at in range(11)]
        ''', 'print(ty.spawn(body, ranks=2, device="cuda", heap_bytes=1 << 30))',
        TILERY_CALIBRATION=figures(tmp_path, **peers, **engines)))
    assert len(ranks) == 2 and ranks[0] == ranks[1]
    return ranks[0]


# 10 + b / 1000 = 22 + b / 2500 at 20 000 bytes; 22 + b / 2500 = 30 + b / 5000 at 40 000, = 30 + b / 2600 at
# 520 000.
def test_larger_messages_take_other_forms_and_slower_engines_later_ones(tmp_path):
    assert choices(tmp_path, copies=5000) == ["flagged"] * 5 + ["direct"] + ["copies"] * 5
    assert choices(tmp_path, copies=2600) == ["flagged"] * 5 + ["direct"] * 4 + ["copies"] * 2
    assert choices(tmp_path, copies=1000) == ["flagged"] * 5 + ["direct"] * 6


# The fake clock shows the same for all forms, of which the first is taken then.
def test_choices_are_remembered_until_figures_are_new(tmp_path):
    shown = run("""
for _ in range(2):
    ty.ops.all_gather(x, out, form="auto")
ty.ops.calibrate()
explained = ty.ops.explain("all_gather", x, out)["chosen"]
ty.ops.all_gather(x, out)
if ty.rank() == 0:
    print(explained)
""", "spawned()\nprint(launched()[:4], launched()[-1])", TILERY_CALIBRATION=figures(tmp_path),
                TILERY_CACHE_DIR=str(tmp_path))
    explained, kernels = shown.splitlines()
    assert kernels.count("collect") == 2 and kernels.endswith(f"all_gather_{explained}"), shown


def test_built_in_figures(tmp_path):
    shown = run("""
explained = [ty.ops.explain("all_reduce", small, small), ty.ops.explain("broadcast", x, ty.zeros(n, "bf16", device="cuda"))]
if ty.rank() == 0:
    print(explained)
""", "spawned()\nprint(launched())", TILERY_CALIBRATION="off", TILERY_CACHE_DIR=str(tmp_path))
    reduced, copied = eval(shown.splitlines()[0])
    assert set(reduced) == {"flagged", "one_shot", "two_shot", "copies", "direct", "chosen"}
    assert set(copied) == {"push", "pull", "direct", "direct_copies", "chosen"}
    for explained in (reduced, copied):
        assert explained.pop("chosen") == min(explained, key=explained.get)
    assert shown.splitlines()[1] == "[]" and not list(tmp_path.glob("*.calibration.json"))


# The first process measures and keeps its figures, the next finds them; of another version of the model, or
# damaged, they are measured again.
def test_a_machine_is_measured_once(tmp_path):
    call, after = "ty.ops.all_reduce(small, small)", "spawned()\nprint(len(launched()))"
    launches = lambda: int(run(call, after, TILERY_CACHE_DIR=str(tmp_path)))  # noqa: E731
    assert launches() > 1000
    kept, = tmp_path.glob("*.calibration.json")
    measured = json.loads(kept.read_text())
    assert measured["version"] == 6 and measured["ranks"] == 2 and measured["sustained"] > 0
    assert all(value >= 0 for value in measured.values())
    assert {"gemm_rs.overlapped 16x8192x8192", "gemm_ar.direct.factor", "gemm_rs.overlapped.exposed", "link.copies.16777216",
            "all_reduce.flagged.1024", "matmul.factor"} <= set(measured)
    assert launches() == 2
    for damaged in ("{", json.dumps(measured | {"version": 1})):
        kept.write_text(damaged)
        assert launches() > 1000
        assert json.loads(kept.read_text()).keys() == measured.keys()


def test_ranks_of_a_small_heap_measure_less(tmp_path):
    code = """
measured = ty.ops.calibrate()
if ty.rank() == 0:
    print(max(int(key.rsplit(".", 1)[1]) for key in measured if key.startswith("all_gather.push.")))
"""
    after = """
ty.spawn(body, ranks=2, device="cuda", heap_bytes=64 << 20)
"""
    assert run(code, after, TILERY_CACHE_DIR=str(tmp_path)) == f"{1 << 20}\n"
    assert not list(tmp_path.glob("*.calibration.json"))


def test_more_ranks_than_direct_kernels_take():
    code = """
measured = ty.ops.calibrate()
if ty.rank() == 0:
    print(sorted({key.rsplit(".", 1)[0] for key in measured if "direct" in key}))
"""
    after = """
ty.spawn(body, ranks=9, device="cuda", heap_bytes=128 << 20)
"""
    assert run(code, after) == "['all_gather.direct_copies', 'all_to_all.direct_copies', 'broadcast.direct_copies']\n"


# A stream that is captured from the first call on.
def test_a_first_call_that_is_recorded_chooses_by_built_in_figures(tmp_path):
    shown = run("""
stream = ctypes.c_void_p()
fake.cuStreamCreate(ctypes.byref(stream), 1)
fake.fake_cuda_capture(stream, 1)
_capi.library().tilery_stream_use(stream)
ty.ops.all_reduce(small, small)
fake.fake_cuda_capture(stream, 0)
_capi.library().tilery_stream_use(None)
""", """
sys.stderr = sys.stdout
os.dup2(1, 2)
spawned()
print(len(launched()))
""", TILERY_CACHE_DIR=str(tmp_path))
    assert "the first call of a communicating operator is recorded in a graph" in shown
    assert shown.splitlines()[-1] == "2" and not list(tmp_path.glob("*.calibration.json"))


def test_files_that_cannot_be_used(tmp_path):
    call = """
failed = message(lambda: ty.ops.all_reduce(small, small))
if ty.rank() == 0:
    print(failed)
"""
    damaged = tmp_path / "figures.json"
    damaged.write_text("{}")
    assert run(call, TILERY_CALIBRATION=str(damaged)) == (
        "ConfigError: TILERY_CALIBRATION names a file without figures of this version; `tilery calibrate -o` "
        "writes one\n")
    shown = run(call, TILERY_CALIBRATION=str(tmp_path / "none"))
    assert "none', which cannot be read" in shown and "hint: leave it empty to measure" in shown


def test_operators_without_a_choice():
    assert run("""
failed = message(lambda: ty.ops.explain("softmax", a, a))
explained = ty.ops.explain("all_reduce", small, small, form="copies")
if ty.rank() == 0:
    print(failed)
    print(explained["chosen"])
""", TILERY_CALIBRATION="off").splitlines() == [
        "ConfigError: softmax has one form only, there is nothing to explain", "copies"]


def test_one_rank_has_nothing_to_measure():
    assert run("print(message(ty.ops.calibrate))", ranks=1) == (
        "LaunchError: calibration measures what goes between several ranks on devices; this world has 1 on a "
        "device\n")


def test_a_graph_is_recorded_then_launched():
    calls = fake('''
        library, graph, nothing = _capi.library(), ctypes.c_void_p(), None
        _capi.check(library.tilery_graph_begin(1, ctypes.byref(graph)))
        print(message(lambda: _capi.check(library.tilery_graph_launch(graph, nothing))))
        kernel[(1,)](x, y, 5)
        recorded = last().stream
        _capi.check(library.tilery_graph_end(graph))
        kernel[(1,)](x, y, 5)
        print(recorded is not None, last().stream == recorded)
        fake.fake_cuda_reset()
        for _ in range(3):
            _capi.check(library.tilery_graph_launch(graph, nothing))
        library.tilery_graph_destroy(graph)
        print(fake.fake_cuda_calls().decode())
        fake.fake_cuda_fail(b"cuGraphInstantiateWithFlags", 2)
        _capi.check(library.tilery_graph_begin(1, ctypes.byref(graph)))
        print(message(lambda: _capi.check(library.tilery_graph_end(graph))))
        library.tilery_graph_destroy(graph)
        print(message(lambda: _capi.check(library.tilery_graph_begin(0, ctypes.byref(graph)))))
    ''').splitlines()
    assert calls[0] == "LaunchError: this graph was not recorded to its end; call tilery_graph_end first"
    assert calls[1] == "True False"
    assert calls[2] == "cuGraphLaunch cuGraphLaunch cuGraphLaunch cuGraphExecDestroy"
    assert "cuGraphInstantiate" in calls[3] and "CUDA_ERROR_OUT_OF_MEMORY" in calls[3]
    assert calls[-1] == "TargetError: driver 'cpu' cannot record"


def test_the_command_measures_and_writes(tilery, tmp_path):  # noqa: F811
    told = tilery("calibrate", "-n", "1", status=105)
    assert "Value 1 not in range" in told
    told = tilery("calibrate", "-n", "2", status=1)
    assert "driver 'cuda' cannot be used here" in told
