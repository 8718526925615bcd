# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel language: `import tilery.language as tl`, `import tilery.language.device as dl`."""

from tilery.language.core import *  # noqa: F401,F403
