"""The code of the pages runs: blocks of a page one after the other, as cells of one notebook."""
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize("page", ["docs/python.md", "docs/python-tutorial.md"])
def test_the_code_of_a_page_runs(page, capsys):
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        blocks = re.findall(r"^```python\n(.*?)^```$", f.read(), re.M | re.S)
    assert blocks
    names = {"__name__": "page"}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page}, block {number}", "exec"), names)
