#!/usr/bin/env python3
"""Prints `PASSED FAILED SKIPPED` of one test runner's record.

usage: results.py junit|lit FILE EXIT_CODE

EXIT_CODE is the runner's own: a failing runner without a failing test, or
without a record, counts as one failure.
"""
import json
import os
import sys
import xml.etree.ElementTree as xml


def junit(path):
    passed = failed = skipped = 0
    for case in xml.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.get("status") == "run" and case.find("skipped") is None:
            passed += 1
        else:
            # GTEST_SKIP, or a DISABLED_ test.
            skipped += 1
    return passed, failed, skipped


def lit(path):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    kinds = {
        "PASS": "passed",
        "FLAKYPASS": "passed",
        "XFAIL": "passed",
        "UNSUPPORTED": "skipped",
        "SKIPPED": "skipped",
        "EXCLUDED": None,
    }
    with open(path, encoding="utf-8") as record:
        for test in json.load(record)["tests"]:
            # Whatever is not known to be good (FAIL, XPASS, UNRESOLVED,
            # TIMEOUT, …) is a failure.
            kind = kinds.get(test["code"], "failed")
            if kind:
                counts[kind] += 1
    return counts["passed"], counts["failed"], counts["skipped"]


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("junit", "lit"):
        sys.exit(__doc__)
    path, exit_code = sys.argv[2], int(sys.argv[3])
    passed = failed = skipped = 0
    try:
        if os.path.exists(path):
            passed, failed, skipped = {"junit": junit, "lit": lit}[sys.argv[1]](path)
        elif exit_code == 0:
            exit_code = 1
    except (ValueError, KeyError, xml.ParseError) as error:
        print(f"error: {path}: {error}", file=sys.stderr)
        exit_code = 1
    if exit_code and not failed:
        failed = 1
    print(passed, failed, skipped)


main()
