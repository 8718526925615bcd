# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""torch's process groups: collectives, products that communicate, parallel layers, torch.compile, graphs.
What the ranks run is in torch_*programs.py and torch_training.py."""

import pytest
from backends import require_device, require_library

import tilery as ty

torch = pytest.importorskip("torch", reason="torch is not installed (pip install torch)")
if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

from tilery.interop import torch as interop  # noqa: E402
from torch_ranks import Ranks  # noqa: E402

PLACES = [("cpu", 2), ("cpu", 4), ("cuda", 2), ("cuda", 4)]


def pool(request, folder):
    require_library()
    device, size = request.param
    if device == "cuda":
        require_device()
        if not torch.cuda.is_available():
            pytest.skip("this torch has no CUDA device")
    made = Ranks(size, device, folder)
    yield made
    made.stop()


@pytest.fixture(scope="module", params=PLACES, ids=lambda place: f"{place[0]}{place[1]}")
def ranks(request, tmp_path_factory):
    yield from pool(request, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int64"])
def test_collectives(ranks, dtype):
    ranks("collectives", dtype=dtype)


@pytest.mark.parametrize("program", [
    "uneven", "heads_to_sequence", "gradients", "gathered_gradient", "only_some_gradients",
    "autocast_and_checkpoint", "operator_contracts", "whole_inputs_and_outputs",
    "layer_details", "mesh", "a_group_that_is_made_again", "symmetric_memory",
    "a_world_of_ones_own"])
def test_program(ranks, program):
    ranks(program)


def needs_compiler():
    """inductor compiles C++ on the host, also for what runs on a GPU."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    try:
        get_cpp_compiler()
    except Exception as error:
        pytest.skip(f"torch's inductor finds no C++ compiler: {error}")


@pytest.mark.parametrize("program", ["compiled", "compiled_in_order"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(ranks, program, backend):
    if backend == "inductor":
        needs_compiler()
        if ranks.device == "cpu" and ranks.size > 2:
            pytest.skip("each rank compiles C++, which two of them do")
    ranks(program, backend=backend)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [
    {"rows": 16, "k": 32, "n": 24}, {"rows": 8, "batch": (3,), "k": 64, "n": 40, "transposed": False},
    {"rows": 13, "k": 27, "n": 19, "bias": False}, {"rows": 5, "k": 9, "n": 7, "transposed": False},
    {"rows": 256, "k": 512, "n": 384}], ids=str)
def test_products(ranks, dtype, shape):
    ranks("products", dtype=dtype, **shape)


@pytest.mark.parametrize("dtype,sequence_parallel,bias,tokens,features", [
    ("float32", False, True, (5, 3), 16), ("float32", True, True, (8, 3), 16),
    ("float32", True, False, (11,), 13), ("float32", False, True, (1,), 9),
    ("bfloat16", True, True, (16,), 24), ("float16", False, False, (4, 2, 2), 24)])
def test_layers(ranks, dtype, sequence_parallel, bias, tokens, features):
    ranks("layers", dtype=dtype, sequence_parallel=sequence_parallel, bias=bias, tokens=tokens,
          features=features)


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_training(ranks, sequence_parallel):
    """50 steps of a transformer. Ours stays as near to the losses in float64 as torch's float32."""
    for losses in ranks("train", sequence_parallel=sequence_parallel):
        exact = losses["exact"]
        assert len(exact) == 50 and exact[0] > 4 and exact[-1] < 0.1

        def farthest(name):
            return max(abs(loss - true) / true for loss, true in zip(losses[name], exact))

        print(f"farthest from float64: ours {farthest('ours'):.2e}, plain {farthest('plain'):.2e}")
        assert farthest("ours") <= 4 * farthest("plain")


def test_a_compiled_model_trains(ranks):
    for losses in ranks("train", sequence_parallel=True, steps=3, compiled=True):
        for step in range(3):
            assert losses["ours"][step] == pytest.approx(losses["exact"][step], rel=2.0**-10)


def test_a_graph_of_a_step(ranks):
    if ranks.device == "cpu":
        pytest.skip("graphs are a GPU's")
    ranks("graph")


def test_groups(ranks):
    assert all("LaunchError: this rank does not belong to the process group" in text
               for text in ranks("groups")[2:])


def test_mistakes(ranks):
    expected = {
        "lengths": "the number of elements differs between ranks",
        "flatten": "is not a multiple of {size} ranks, which 'a' with 3 dimensions needs; flatten it",
        "vector": "'a' has shape [4]; it needs two dimensions or more",
        "types": "they must have one type", "depth": "K of 'a'", "blocks": "must be a multiple of",
        "whole input": "ConfigError: RowParallelLinear with sequence_parallel=True takes this rank's",
        "root": "option 'root' is {size}",
        "place": "a tensor is on cpu, but tilery's world has its memory on cuda:"}
    for texts in ranks("mistakes"):
        for name, text in texts.items():
            assert expected[name].format(size=ranks.size) in text, (name, text)


@pytest.fixture(params=[("cpu", 4), ("cuda", 4)], ids=["cpu4", "cuda4"])
def fresh(request, tmp_path):
    """Ranks that have no world yet."""
    yield from pool(request, tmp_path)


def test_two_hosts(fresh):
    for rank, text in enumerate(fresh("two_hosts")):
        begin = rank // 2 * 2
        missing = [2, 3] if begin == 0 else [0, 1]
        assert (f"ranks {missing} of process group [0, 1, 2, 3] are not in tilery's world, which "
                f"consists of ranks [{begin}, {begin + 1}]") in text, text


def test_ranks_that_do_not_come(fresh):
    texts = fresh("a_rank_that_does_not_come")[:2]
    assert any(text.startswith("WaitTimeout: the first use of process group [0, 1] waits for all ranks "
                               "[0, 1, 2, 3], and some have not come") for text in texts), texts
    assert all(text.startswith(("WaitTimeout", "PeerError")) for text in texts), texts


def test_groups_out_of_step(fresh):
    texts = fresh("groups_out_of_step")
    assert "process group [2, 3] was first used while other ranks used another one" in texts[2], texts
    assert "process group [1, 3] was first used while" in texts[3], texts


def test_without_torch_distributed():
    with pytest.raises(ty.LaunchError, match="torch.distributed is not initialised"):
        interop.all_reduce(torch.zeros(3))


def test_names():
    assert {"all_gather_matmul", "ColumnParallelLinear", "team", "register_ops"} <= set(dir(interop))
    with pytest.raises(AttributeError, match="tilery.interop.torch has no 'all_gathr'"):
        interop.all_gathr
