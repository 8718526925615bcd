# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Packs the staged package as one wheel for Python 3.11 and later (run by utils/build_wheel.sh)."""

from setuptools import Distribution, find_packages, setup


class BinaryDistribution(Distribution):
    """Has compiled parts that were built before, so the wheel is not pure Python."""

    def has_ext_modules(self):
        return True


setup(
    packages=find_packages(include=["tilery", "tilery.*"]),
    package_data={"tilery": ["_launch.abi3.so", "lib/*.so", "bin/*", "bench/*.py", "include/tilery/*"]},
    distclass=BinaryDistribution,
    options={"bdist_wheel": {"py_limited_api": "cp311",
                             "plat_name": "manylinux_2_36_x86_64"}},
    zip_safe=False,
)
