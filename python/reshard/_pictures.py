"""Texts and pictures of layouts and plans, and their display in notebooks."""
import html
import json

from ._reshard import Layout, Plan

_FORMS = {"text": 0, "svg": 1, "html": 2, "ansi": 3, "json": 4}


def _form(name):
    if name not in _FORMS:
        raise ValueError(f"form must be one of {', '.join(_FORMS)}, got {name!r}")
    return _FORMS[name]


def _layout_draw(self, form="text"):
    """Returns a picture of the layout: "text", "ansi", "svg", "html" or "json"."""
    return self._draw(_form(form))


def _plan_draw(self, form="text", tensor=0):
    """Returns a picture of what moves: "text", "ansi", "svg", "html" or "json"."""
    return self._draw(tensor, _form(form))


def _plan_explain(self, rank=None):
    """Describes the plan, or what one rank does in it."""
    return self._print(-1 if rank is None else rank, 0)


def _plan_json(self, rank=None):
    """Returns the same data as explain, as a dict."""
    return json.loads(self._print(-1 if rank is None else rank, 1))


def _layout_svg(self):
    return _layout_draw(self, "svg")


def _plan_svg(self):
    return _plan_draw(self, "svg")


def _layout_html(self):
    return f"<div><code>{html.escape(self.text)}</code><br>{_layout_svg(self)}</div>"


def _plan_html(self):
    words = html.escape(_plan_explain(self))
    pictures = "".join(_plan_draw(self, "svg", tensor) for tensor in range(min(self.ntensors, 4)))
    return f"<div>{pictures}<pre>{words}</pre></div>"


Layout.draw, Layout._repr_svg_, Layout._repr_html_ = _layout_draw, _layout_svg, _layout_html
Plan.draw, Plan._repr_svg_, Plan._repr_html_ = _plan_draw, _plan_svg, _plan_html
Plan.explain, Plan.json = _plan_explain, _plan_json
