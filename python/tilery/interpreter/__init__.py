# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Runs kernels as plain Python: all ranks and program instances interleaved in one thread."""
