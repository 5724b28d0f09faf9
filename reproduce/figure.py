"""Figures as SVG, by matplotlib."""

import dataclasses
import io
import math


@dataclasses.dataclass
class Chart:
    """Lines over an axis. `lines` maps names to points (x, y) or (x, y, standard error); `paper` has what
    the paper prints, drawn as crosses."""

    name: str
    title: str
    x: str
    y: str
    lines: dict
    paper: dict = dataclasses.field(default_factory=dict)
    log: str = ""  # The axes that are logarithmic: "", "x", "y" or "xy".

    def svg(self):
        import matplotlib

        matplotlib.use("Agg")
        # The same bytes for the same points.
        matplotlib.rcParams.update({"svg.hashsalt": "rankfold", "svg.fonttype": "none", "font.size": 10})
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
        for name, points in self.lines.items():
            points = sorted(points)
            errors = [p[2] if len(p) > 2 and not math.isnan(p[2]) else 0.0 for p in points]
            axes.errorbar([p[0] for p in points], [p[1] for p in points], yerr=errors if any(errors) else None,
                          marker="o", markersize=4, capsize=2, label=name)
        axes.set_prop_cycle(None)
        for name, points in self.paper.items():
            axes.plot([p[0] for p in points], [p[1] for p in points], linestyle="none", marker="x",
                      markersize=8, label=f"{name} (paper)")
        if "x" in self.log:
            axes.set_xscale("log")
        if "y" in self.log:
            axes.set_yscale("log")
        axes.set_title(self.title, fontsize=11)
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
        plt.close(figure)
        return out.getvalue()
