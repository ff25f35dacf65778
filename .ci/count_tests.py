"""Add up the test reports of one `make test` and say so in one line; fail when a report is missing or a test failed."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

EXPECTED = ("unit", "nbval", "pages")


def main(folder: Path) -> int:
    """Sum the JUnit files that ``make test`` left in ``folder``."""
    total = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for name in EXPECTED:
        report = folder / f"{name}.xml"
        if not report.is_file():
            print(f"no test report {report}: run make test")
            return 1
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            for key in total:
                total[key] += int(suite.get(key, 0))
    failed = total["failures"] + total["errors"]
    passed = total["tests"] - failed - total["skipped"]
    print(f"\ntests: {passed} passed, {failed} failed, {total['skipped']} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
