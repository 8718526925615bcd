# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Teams: ranks of a world that work on their own, overlapping ones too, and their errors."""

import itertools

import numpy as np
import pytest

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


@ty.jit
def exchange(out, inbox, ready, rounds, N: tl.constexpr):
    """out = what the left neighbour of the team sent last: its number there and the round."""
    rank, size = dl.rank(), dl.num_ranks()
    at = tl.arange(0, N)
    for turn in range(1, rounds + 1):
        right = (rank + 1) % size
        left = (rank + size - 1) % size
        tl.store(dl.symm_at(inbox, right) + at, tl.full((N,), 0, tl.int32) + rank * 100 + turn)
        dl.notify(ready, right, signal=turn, sig_op="set")
        dl.wait(ready, waitValue=turn)
        tl.store(out + at, tl.load(inbox + at))
        dl.notify(ready + 1, left, signal=turn, sig_op="set")
        dl.wait(ready + 1, waitValue=turn)


def run_in(team, rounds=3):
    """Launches in the team and checks what each rank of it got."""
    inbox, ready = ty.zeros(16, ty.int32, "inbox", team=team), ty.signals(2, "ready", team=team)
    out = np.zeros(16, np.int32)
    exchange[(1,)](out, inbox, ready, rounds, N=16, team=team)
    left = (team.rank - 1) % team.size
    assert (out == left * 100 + rounds).all(), (team, out)
    return inbox


def test_overlapping_teams(backend):
    def body():
        low, high = ty.team([0, 1, 2], "low"), ty.team([3, 2], "high")
        me = ty.rank()
        assert (low.rank, low.size) == (me if me < 3 else -1, 3)
        assert (high.rank, high.ranks) == ({2: 1, 3: 0}.get(me, -1), [3, 2])
        for team in (low, high, low):
            if team.rank >= 0:
                run_in(team)
                ty.barrier(team=team)
                assert (ty.rank(team=team), ty.num_ranks(0, team=team)) == (team.rank, team.size)
        run_in(ty.init())
        return True
    assert ty.spawn(body, ranks=4) == [True] * 4


@pytest.mark.parametrize("delay", [False, True])
def test_every_schedule_of_overlapping_teams(backend, delay):
    def body():
        teams = [ty.team(ranks, f"t{n}") for n, ranks in enumerate([[0, 1], [2, 1], [2, 0]])]
        for team in teams:
            if team.rank >= 0:
                run_in(team, rounds=2)
    for seed in range(10):
        ty.spawn(body, ranks=3, seed=seed, delay=delay, timeout=20)


def test_every_order_of_subgroups(backend):
    """Case 25: ranks meet in subgroups and in the whole world, in any order."""
    def body(order):
        groups = {"few": ty.team([0, 1], "few"), "rest": ty.team([2, 1], "rest"), "all": ty.init()}
        for name in order:
            if groups[name].rank >= 0:
                assert groups[name].all_gather_bytes(bytes([groups[name].rank])) == \
                    [bytes([r]) for r in range(groups[name].size)]
                ty.barrier(team=groups[name])
    for order in itertools.permutations(["few", "rest", "all"]):
        ty.spawn(body, ranks=3, args=(order,), timeout=20)


def test_split_by_color_and_key(backend):
    def body():
        me = ty.rank()
        team = ty.split(None if me == 4 else me % 2, key=-me, name="parity")
        if me == 4:
            assert (team.rank, team.size) == (-1, 0)
            with pytest.raises(ty.LaunchError, match=r"rank 4 of the world does not belong to team "
                               "'parity'"):
                ty.barrier(team=team)
            return None
        assert team.ranks == ([2, 0] if me % 2 == 0 else [3, 1])
        run_in(team)
        return team.rank
    assert ty.spawn(body, ranks=5) == [1, 1, 0, 0, None]


def test_team_of_a_team(backend):
    def body():
        outer = ty.team([3, 1, 2], "outer")
        if outer.rank < 0:
            return None
        inner = ty.team([2, 0], "inner", of=outer)
        assert inner.ranks == [2, 3]
        if inner.rank >= 0:
            shared = ty.zeros(4, ty.int32, "shared", team=outer)
            run_in(inner)
            return shared.at(outer.rank).numpy().sum() + inner.rank
        ty.zeros(4, ty.int32, "shared", team=outer)
        return None
    assert ty.spawn(body, ranks=4) == [None, None, 0, 1]


@ty.jit
def fetch(out, x, N: tl.constexpr):
    """out = x of the next rank of the team."""
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(dl.symm_at(x, (dl.rank() + 1) % dl.num_ranks()) + at))


def test_memory_of_the_world_in_a_team(backend):
    """Ranks count in the team, whoever allocated the memory."""
    def body():
        x = ty.zeros(8, ty.int32, "x")
        x.numpy()[:] = ty.rank()
        ty.barrier()
        team = ty.team([3, 0], "ends")
        out = np.zeros(8, np.int32)
        if team.rank >= 0:
            fetch[(1,)](out, x, N=8, team=team)
            assert (out == 3 - ty.rank()).all()
        fetch[(1,)](out, x, N=8)
        assert (out == (ty.rank() + 1) % 4).all()
        ty.barrier()
    ty.spawn(body, ranks=4)


def test_teams_place_memory_where_all_their_ranks_have_room(compiled):
    """Rank 1 is in both teams, so that gaps differ from rank to rank."""
    def body():
        teams = [ty.team([0, 1], "a"), ty.team([1, 2], "b"), ty.init()]
        kept = []
        for size, which in [(5000, 0), (100, 1), (9000, 0), (70000, 2), (10, 1), (20000, 0)]:
            if teams[which].rank >= 0:
                tensor = ty.zeros(size, ty.int8, f"x{size}", team=teams[which])
                tensor.numpy()[:] = 1
                kept.append(tensor)
        spans = sorted((t.address, t.address + t.nbytes) for t in kept)
        assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:]))
        for tensor in kept:
            for rank in range(tensor.world.size):
                ty.barrier(team=tensor.world)
                assert tensor.at(rank).numpy().all()
        before = ty.init().describe()["heap"]["used"]
        for team in teams[:2]:
            if team.rank >= 0:
                team.finalize()
        assert ty.init().describe()["heap"]["used"] < before
        if ty.rank() < 2:
            with pytest.raises(ty.LaunchError, match="'x5000' belongs to team 'a', which was "
                               "finalized"):
                kept[0].numpy()
        again = ty.zeros(3, ty.int32, "again")
        assert not again.numpy().any()
    ty.spawn(body, ranks=3)


def test_a_finalized_team(backend):
    def body():
        team = ty.team([0, 1], "gone")
        run_in(team)
        team.finalize()
        with pytest.raises(ty.LaunchError, match="team 'gone' was finalized; rank . has left it"):
            ty.barrier(team=team)
        run_in(ty.team([1, 0], "next"))
    ty.spawn(body, ranks=2)


def raises_on_all(ranks, body, match):
    def guarded():
        with pytest.raises(ty.LaunchError, match=match):
            body()
        return True
    assert ty.spawn(guarded, ranks=ranks, timeout=20) == [True] * ranks


def test_ranks_that_disagree_about_a_team(backend):
    raises_on_all(2, lambda: ty.team([0, 1] if ty.rank() else [0], "tp"),
                  r"(?s)disagree about a collective operation.*rank 0: team 'tp' of ranks \[0\].*"
                  r"rank 1: team 'tp' of ranks \[0, 1\]")
    raises_on_all(2, lambda: ty.team([0, 1], f"of{ty.rank()}"), "(?s)'of0'.*'of1'")


@pytest.mark.parametrize("ranks, message", [
    ([0, 0], r"rank 0 occurs twice in team 'tp' of ranks \[0, 0\]"),
    ([0, 2], "rank 2 of team 'tp' is out of range: the world has 2 ranks"),
    ([-1], "rank -1 of team 'tp' is out of range: the world has 2 ranks"),
    ([], "team 'tp' has no ranks"),
    ([2**40], "a rank of team 'tp' does not fit in 32 bits"),
])
def test_wrong_lists_of_ranks(backend, ranks, message):
    raises_on_all(2, lambda: ty.team(ranks, "tp"), message)


def test_one_rank_alone_has_a_wrong_list(backend):
    """The others do not wait for it."""
    raises_on_all(3, lambda: ty.team([0, 0] if ty.rank() == 1 else [0, 1], "tp"), "disagree")


def test_arguments_that_are_no_teams(backend):
    for bad, message in [(lambda: ty.team(3), "takes a list of ranks, got 3"),
                         (lambda: ty.team(["0"]), "takes a list of ranks"),
                         (lambda: ty.split("red"), "ty.split takes whole numbers, got color 'red'"),
                         (lambda: ty.split(-2), "takes a color from 0 and a key of 32 bits"),
                         (lambda: ty.barrier(team=[0, 1]), "team= takes what ty.team")]:
        with pytest.raises(ty.ConfigError, match=message):
            ty.spawn(bad, ranks=1)


def test_a_rank_outside_uses_the_team(backend):
    def body():
        team = ty.team([0, 1], "tp")
        if team.rank >= 0:
            return
        inside = r"rank 2 of the world does not belong to team 'tp' \(ranks 0, 1 of the world\)"
        for use in (lambda: ty.barrier(team=team), lambda: ty.zeros(4, ty.int32, team=team),
                    lambda: meet[(1,)](np.zeros(4, np.int32), 1, team=team),
                    lambda: ty.team([0], "inner", of=team)):
            with pytest.raises(ty.LaunchError, match=inside):
                use()
    ty.spawn(body, ranks=3)


def test_memory_of_another_team(backend):
    def body():
        team = ty.team([0, 1], "tp")
        if team.rank < 0:
            return
        x = ty.zeros(4, ty.int32, "x", team=team)
        with pytest.raises(ty.LaunchError, match="argument 'x'.* is 'x', which belongs to a team, "
                           "not to the world"):
            fetch[(1,)](np.zeros(4, np.int32), x, N=4)
    ty.spawn(body, ranks=3)


def test_a_rank_out_of_the_teams_range(backend):
    @ty.jit
    def poke(x):
        tl.store(dl.symm_at(x, 2), 1)

    def body():
        team = ty.team([1, 2], "tp")
        if team.rank < 0:
            return
        poke[(1,)](ty.zeros(4, ty.int32, "x", team=team), team=team)
    with pytest.raises(ty.LaunchError, match="rank 2 (is out of range: team 'tp' has 2 ranks|does "
                       "not exist)"):
        ty.spawn(body, ranks=3)


def test_a_team_that_does_not_meet_times_out(backend):
    def body():
        team = ty.team([0, 2], "tp")
        if ty.rank() == 2:
            ty.barrier(team=team)
    with pytest.raises(ty.WaitTimeout, match=r"rank 1 of team 'tp' \(rank 2 of the world\)"):
        ty.spawn(body, ranks=3, seed=1, timeout=3)


def test_a_deadlock_in_a_team_says_whose_ranks(backend):
    def body():
        team = ty.team([2, 0], "tp")
        if team.rank >= 0:
            run_in_vain(team)
    @ty.jit
    def forever(ready):
        dl.wait(ready)

    def run_in_vain(team):
        forever[(1,)](ty.signals(1, "never", team=team), team=team)
    first = r"rank 0 of team 'tp' \(rank 2 of the world\)"
    if backend == "cuda":  # which sees no deadlock: either rank may be the first to time out
        first = rf"({first}|rank 1 of team 'tp' \(rank 0 of the world\))"
    with pytest.raises(ty.WaitTimeout, match=f"(?s){first}.*'(never|ready)'"):
        ty.spawn(body, ranks=3, seed=1, timeout=5)


@ty.jit
def meet(count, rounds):
    for turn in range(0, rounds):
        tl.atomic_add(dl.symm_at(count, 0), 1)
        dl.barrier_all()
        tl.device_assert(tl.load(dl.symm_at(count, 0)) >= (turn + 1) * dl.num_ranks(), "too early")
        dl.barrier_all()


def test_device_barriers_are_the_teams(backend):
    def body():
        for name, ranks in [("a", [0, 1]), ("b", [2, 1]), ("c", [2, 0, 1])]:
            team = ty.team(ranks, name)
            if team.rank >= 0:
                meet[(1,)](ty.zeros(1, ty.int32, "count", team=team), 20, team=team)
    ty.spawn(body, ranks=3, timeout=30)


def test_case_26_workspace_of_a_tensor_parallel_subgroup(compiled):
    """Operators on subgroups: the workspace is the team's, made at run time, without the world."""
    from tilery import ops

    def body():
        me = ty.rank()
        pair, ends = ty.split(me // 2, name="tp"), ty.team([0, 3], "ends")
        x, out = np.full(100, me + 1, np.float32), np.zeros(100, np.float32)
        for _ in range(3):  # again: the kept workspaces
            ops.all_reduce(x, out, team=pair)
            assert (out == sum(r + 1 for r in pair.ranks)).all()
            if ends.rank >= 0:
                ops.all_reduce(x, out, team=ends)
                assert (out == 5).all()
            ops.all_reduce(x, out, team=ty.init())
            assert (out == 10).all()
        gathered = np.zeros((2, 3), np.float32)
        ops.all_gather(np.full((1, 3), me, np.float32), gathered, team=pair)
        assert (gathered == np.array(pair.ranks, np.float32)[:, None]).all()
        with pytest.raises(ty.LaunchError, match=r"ops.all_reduce needs team=, because this world "
                           r"has been divided \(team .*\); team=ty.init\(\) means all ranks"):
            ops.all_reduce(x, out)
        ops.softmax(np.ones((2, 8), np.float32), np.zeros((2, 8), np.float32))
        return True
    assert ty.spawn(body, ranks=4) == [True] * 4


def test_every_operator_in_a_team(compiled):
    from tilery import ops

    def body():
        rng = np.random.default_rng(0)
        team = ty.team([3, 1, 0], "tp")
        if team.rank < 0:
            return None
        n, me = team.size, team.rank
        a, b = rng.standard_normal((6, 8)).astype(np.float32), rng.standard_normal((8, 5)).astype(
            np.float32)
        exact = a.astype(np.float64) @ b
        rows = slice(2 * me, 2 * me + 2)
        c = np.zeros((6, 5), np.float32)
        ops.ag_gemm(a[rows], b, c, team=team)
        np.testing.assert_allclose(c, exact, rtol=1e-4, atol=1e-5)
        part = [slice(0, 3), slice(3, 6), slice(6, 8)][me]
        ops.gemm_ar(a[:, part].copy(), b[part], c, team=team)
        np.testing.assert_allclose(c, exact, rtol=1e-4, atol=1e-5)
        own = np.zeros((2, 5), np.float32)
        ops.gemm_rs(a[:, part].copy(), b[part], own, team=team)
        np.testing.assert_allclose(own, exact[rows], rtol=1e-4, atol=1e-5)
        x, out = np.full((n, 4), me, np.float32), np.zeros((1, 4), np.float32)
        ops.reduce_scatter(x, out, team=team)
        assert (out == sum(range(n))).all()
        swapped = np.zeros((n, 4), np.float32)
        ops.all_to_all(x, swapped, team=team)
        assert (swapped == np.arange(n)[:, None]).all()
        ops.broadcast(x, swapped, root=2, team=team)
        assert (swapped == 2).all()
        return True
    assert ty.spawn(body, ranks=4) == [True, True, None, True]


def test_autotune_agrees_within_the_team(compiled):
    @ty.autotune([ty.Config({"N": 8}), ty.Config({"N": 16})], key=[])
    @ty.jit
    def tuned(out, x, N: tl.constexpr):
        at = tl.arange(0, N)
        tl.store(out + at, tl.load(dl.symm_at(x, 0) + at))

    def body():
        team = ty.team([2, 0], "tp")
        if team.rank >= 0:
            tuned[(1,)](np.zeros(16, np.int32), ty.zeros(16, ty.int32, team=team), team=team)
    ty.spawn(body, ranks=3, timeout=20)
