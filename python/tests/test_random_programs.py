# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Random programs: the compiled CPU kernel agrees with the executable reference.

`pytest --programs 2000` runs the long campaign.
The seed is printed by hypothesis on failure; the default run is reproducible.
"""

import numpy as np
import pytest
from backends import numpy_type, random_array, require_library
from hypothesis import HealthCheck, given, seed, settings
from kernel_text import make
from programs import programs

import tilery as ty


def outputs(program, interpret: bool) -> np.ndarray:
    rng = np.random.default_rng(program.n)
    shape = (program.rows, program.cols)
    arrays = [random_array(rng, shape, dtype) for dtype in program.inputs]
    out = np.zeros(shape, numpy_type(program.output))
    with ty.interpret(interpret):
        make(program.source)[(1,)](*arrays, out, program.n, 3, ROWS=program.rows,
                                   COLS=program.cols)
    return out


def compare(program) -> None:
    expected, actual = outputs(program, True), outputs(program, False)
    if program.output[0] in "iu":
        np.testing.assert_array_equal(actual, expected, err_msg=repr(program))
    else:
        rtol = {"fp32": 2e-4, "fp16": 4e-3, "bf16": 2.0**-6}[program.output]
        np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64),
                                   rtol=rtol, atol=rtol, err_msg=repr(program))


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
        compare(program)
    run()
