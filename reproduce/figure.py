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

        many = len(self.lines) > 6
        figure, axes = plt.subplots(figsize=(8.6 if many else 7.2, 4.4), layout="constrained")
        styles = ["-", "--", ":", "-."]
        for number, (name, points) in enumerate(self.lines.items()):
            points = sorted(points)
            errors = [p[2] if len(p) > 2 and not math.isnan(p[2]) else 0.0 for p in points]
            # Markers of many points would hide the line; more lines than colors differ by their dashes.
            axes.errorbar([p[0] for p in points], [p[1] for p in points], yerr=errors if any(errors) else None,
                          marker="o" if len(points) <= 15 else "", markersize=4, capsize=2, label=name, color=f"C{number % 10}",
                          linestyle=styles[number // 10 % 4])
        colors = {name: f"C{number % 10}" for number, name in enumerate(self.lines)}
        for name, points in self.paper.items():
            axes.plot([p[0] for p in points], [p[1] for p in points], linestyle="none", marker="x",
                      markersize=8, label=f"{name} (paper)", color=colors.get(name, "black"))
        if "x" in self.log:
            axes.set_xscale("log")
        if "y" in self.log:
            axes.set_yscale("log")
        axes.set_title(self.title, fontsize=11)
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)
        axes.grid(alpha=0.3)
        if many:
            axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
        else:
            axes.legend(fontsize=8)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
        plt.close(figure)
        return out.getvalue()
