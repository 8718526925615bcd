#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Adds up the JUnit files of utils/gpu_tests.sh: summary.json, and what failed on the terminal."""

import collections
import json
import pathlib
import sys
import xml.etree.ElementTree as xml


def outcome(case) -> tuple[str, str]:
    for kind in ("failure", "error"):
        found = case.find(kind)
        if found is not None:
            return "failed", (found.get("message") or "").strip().splitlines()[0:1]
    skipped = case.find("skipped")
    if skipped is not None or case.get("status") == "notrun":
        return "skipped", (skipped.get("message") if skipped is not None else "") or ""
    return "passed", ""


def main(folder: pathlib.Path) -> int:
    suites, failures, reasons = {}, [], collections.Counter()
    for file in sorted(folder.glob("*.xml")):
        counts = collections.Counter()
        for case in xml.parse(file).iter("testcase"):
            result, text = outcome(case)
            counts[result] += 1
            if result == "failed":
                failures.append({"test": f"{file.stem}::{case.get('name')}",
                                 "message": " ".join(text)[:300]})
            elif result == "skipped":
                reasons[str(text)[:200]] += 1
        suites[file.stem] = dict(counts)
    broken = [file.stem for file in folder.glob("*.broken")]
    total = sum(map(collections.Counter, suites.values()), collections.Counter())
    report = {"total": dict(total), "suites": suites, "failures": failures,
              "skip_reasons": dict(reasons.most_common()), "without_result": broken}
    (folder / "summary.json").write_text(json.dumps(report, indent=1))
    for failure in failures[:60]:
        print(f"FAILED {failure['test']}: {failure['message'][:160]}")
    print(f"{dict(total)}, without a result: {broken or 'none'}")
    return 1 if failures or broken or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
