# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# Runs the *.mlir and *.py tests of every folder below compiler/. CTest passes the build folder as
# `--param build=...`.
import os

import lit.formats

config.name = "compiler"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".py"]  # kernels, whose assembly text is looked at
config.excludes = ["lit.cfg.py", "fuzz"]
config.test_source_root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

build = os.path.abspath(lit_config.params["build"])
llvm = lit_config.params.get("llvm", "/usr/lib/llvm-22/bin")
config.test_exec_root = os.path.join(build, "compiler", "test", "run")
config.substitutions.append(("%opt", os.path.join(build, "tools", "tilery-opt", "tilery-opt")))
config.substitutions.append(("%tilery", os.path.join(build, "bin", "tilery")))
config.environment["TILERY_CACHE_DIR"] = os.path.join(config.test_exec_root, "cache")
config.environment["PATH"] = os.pathsep.join([llvm, os.environ.get("PATH", "")])
