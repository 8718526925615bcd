# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Random programs: the compiled CPU kernel agrees with the executable reference.

`pytest --programs 2000` runs the long campaign; utils/gpu_random.py compares GPUs with the CPU.
The seed is printed by hypothesis on failure; the default run is reproducible.
"""

import pytest
from backends import require_library
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from kernel_text import make
from programs import make_program

import tilery as ty


class Drawn:
    """Choices that hypothesis makes, so that it can shrink a program that fails."""

    def __init__(self, draw):
        self.draw = draw

    def choose(self, options):
        return self.draw(st.sampled_from(list(options)))

    def integer(self, low, high):
        return self.draw(st.integers(low, high))


@st.composite
def programs(draw):
    return make_program(Drawn(draw))


def outputs(program, interpret: bool):
    arrays = program.arguments()
    with ty.interpret(interpret):
        program.launch(make(program.source), arrays)
    return arrays


def test_the_reference_runs_random_programs():
    """The generator makes valid programs: the reference accepts all of them."""
    @seed(1)
    @settings(max_examples=100, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))
    @given(programs())
    def run(program):
        outputs(program, True)
    run()


@pytest.mark.parametrize("part", range(4))
def test_compiled_programs_agree_with_the_reference(request, part):
    require_library()
    count = request.config.getoption("--programs") // 4
    first = request.config.getoption("--programs-seed") + part
    print(f"{count} programs with seed {first}")

    @seed(first)
    @settings(max_examples=count, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))
    @given(programs())
    def run(program):
        assert program.compare(outputs(program, False), outputs(program, True)) == "", repr(program)
    run()
