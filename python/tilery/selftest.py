# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel of the self-test of `ty.doctor()`."""

import tilery as ty
import tilery.language.device as dl


@ty.jit
def swap(mine, theirs, arrived, n):
    """Two ranks exchange `n` elements."""
    peer = 1 - dl.rank()
    dl.put_signal(theirs, mine, n, peer, arrived, 1, "set")
    dl.wait(arrived, waitValue=1, cmp="ge")
