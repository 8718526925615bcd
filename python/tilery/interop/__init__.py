# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Meeting points with other libraries; each imports its library only when called."""
