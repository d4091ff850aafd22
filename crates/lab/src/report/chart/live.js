// From the data of a chart to uPlot: light and dark, values under the pointer, zoom, series that can be switched off.
// The picture beside the data is shown where this does not run, and on paper.
(function () {
  "use strict";
  const root = document.documentElement;
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const DASHES = { 3: [7, 3], 5: [2, 3], 7: [9, 3, 2, 3] };

  // Three significant digits, thousands apart, as in the tables.
  function number(v) {
    const a = Math.abs(v);
    const digits = a >= 100 || a === 0 ? 0 : a >= 10 ? 1 : a >= 1 ? 2 : Math.min(6, Math.max(3, 2 - Math.floor(Math.log10(a))));
    const [int, frac] = v.toFixed(digits).split(".");
    return int.replace(/\B(?=(\d{3})+$)/g, ",") + (frac === undefined ? "" : "." + frac);
  }
  const short = (v) => number(v).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");

  function bytes(v) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let n = 0;
    for (; v >= 1024 && n + 1 < units.length; n++) v /= 1024;
    return short(v) + " " + units[n];
  }
  function percentile(v) {
    if (v <= 1) return "0";
    return (100 - 100 / v).toFixed(Math.max(0, Math.round(Math.log10(v)) - 2 + (Math.log10(v) % 1 ? 1 : 0)));
  }
  function words(axis, v) {
    if (axis.kind === "percentile") return percentile(v);
    if (axis.kind === "bytes") return bytes(v);
    return short(v / axis.by);
  }

  // Round places for ticks of a part of an axis.
  function places(axis, min, max, most) {
    const all = [];
    if (axis.log) {
      for (let e = Math.floor(Math.log10(min / axis.by)); e <= Math.ceil(Math.log10(max / axis.by)); e++)
        for (const m of [1, 2, 5]) all.push(m * Math.pow(10, e) * axis.by);
      const seen = all.filter((v) => v >= min && v <= max);
      if (seen.length >= 2) return seen.filter((_, i) => i % Math.ceil(seen.length / most) === 0);
    }
    const raw = (max - min) / axis.by / most, ten = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map((m) => m * ten).find((s) => s >= raw) * axis.by;
    const list = [];
    for (let n = Math.ceil(min / step); n * step <= max && list.length < 64; n++) list.push(n * step);
    return list;
  }

  // One row of x for all series; a series has nothing where it has no point.
  function aligned(series) {
    const xs = Array.from(new Set(series.flatMap((s) => s.points.map((p) => p[0])))).sort((a, b) => a - b);
    const at = new Map(xs.map((x, i) => [x, i]));
    return [xs].concat(series.map((s) => {
      const ys = new Array(xs.length).fill(null);
      for (const [x, y] of s.points) ys[at.get(x)] = y;
      return ys;
    }));
  }

  // The line in the order of its points: a curve may bend back.
  function path(s) {
    return (u, index) => {
      const line = new Path2D();
      const place = (p) => [u.valToPos(p[0], "x", true), u.valToPos(p[1], u.series[index].scale, true)];
      s.points.forEach((p, i) => (i ? line.lineTo(...place(p)) : line.moveTo(...place(p))));
      let fill = null;
      if (s.shape === "area" && s.points.length) {
        fill = new Path2D(line);
        const base = u.bbox.top + u.bbox.height;
        fill.lineTo(place(s.points[s.points.length - 1])[0], base);
        fill.lineTo(place(s.points[0])[0], base);
        fill.closePath();
      }
      return { stroke: s.shape === "marks" ? null : line, fill: fill, clip: null, band: null, gaps: null, flags: 0 };
    };
  }

  // Of each series the point nearest to the pointer.
  function nearest(u, index, hovered, x) {
    if (index === 0) return hovered;
    const ys = u.data[index], xs = u.data[0];
    let best = null;
    const look = (i) => {
      if (ys[i] == null) return false;
      if (best === null || Math.abs(u.valToPos(xs[i], "x") - u.valToPos(x, "x")) < Math.abs(u.valToPos(xs[best], "x") - u.valToPos(x, "x"))) best = i;
      return true;
    };
    for (let i = hovered; i >= 0 && !look(i); i--);
    for (let i = hovered + 1; i < xs.length && !look(i); i++);
    return best;
  }

  function drawBelow(chart, panel) {
    return (u) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.globalAlpha = 0.16;
      ctx.fillStyle = css("--band");
      for (const [from, to] of chart.bands) {
        const a = u.valToPos(from, "x", true), b = u.valToPos(to, "x", true);
        ctx.fillRect(a, bbox.top, b - a, bbox.height);
      }
      ctx.globalAlpha = 1;
      ctx.strokeStyle = css("--rule");
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      for (const v of panel.rules) {
        const y = u.valToPos(v, "y", true);
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
      }
      for (const v of chart.marks) {
        const x = u.valToPos(v, "x", true);
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
      }
      ctx.stroke();
      ctx.restore();
    };
  }

  function axis(spec, narrow, side) {
    return {
      scale: side === 2 ? "x" : "y",
      side: side,
      label: spec.label,
      labelSize: 20,
      labelFont: "12px system-ui, sans-serif",
      font: "12px system-ui, sans-serif",
      size: side === 2 ? 30 : 52,
      stroke: () => css("--text"),
      grid: { stroke: () => css("--grid"), width: 1 },
      ticks: { stroke: () => css("--axis"), width: 1, size: 4 },
      splits: (u, _, min, max) => {
        const whole = min <= spec.lo * 1.000001 && max >= spec.hi * 0.999999;
        const most = side === 2 ? (narrow ? 5 : 10) : 6;
        const own = spec.ticks.map((t) => t[0]);
        return whole && (side === 2 || own.length <= most + 2) ? own : places(spec, Math.max(min, spec.lo), Math.min(max, spec.hi), most);
      },
      filter: (u, splits) => splits,
      values: (u, splits) => {
        const text = new Map(spec.ticks);
        const all = splits.map((v) => text.get(v) || words(spec, v));
        if (side !== 2) return all;
        // A text without room gives way; its line stays.
        let free = -Infinity;
        return splits.map((v, i) => {
          const at = u.valToPos(v, "x"), half = all[i].length * 3.6;
          if (at - half < free) return "";
          free = at + half + 6;
          return all[i];
        });
      },
    };
  }

  function scale(spec, xs) {
    const whole = (min, max) => xs.length === 0 || (min <= xs[0] && max >= xs[xs.length - 1]);
    return {
      time: false,
      auto: true,
      distr: spec.log ? 3 : 1,
      log: 10,
      range: (u, min, max) => (min == null || whole(min, max) ? [spec.lo, spec.hi] : [min, max]),
    };
  }

  function options(chart, panel, number_, last, width, key, data) {
    const narrow = width < 560;
    const series = panel.series.map((s) => ({
      label: s.name,
      scale: "y",
      stroke: () => css("--s" + s.look),
      fill: s.shape === "area" ? () => css("--s" + s.look) + "40" : undefined,
      width: 2,
      dash: DASHES[s.look],
      paths: path(s),
      spanGaps: true,
      points: { show: s.shape === "dots" || s.shape === "marks" || s.points.length === 1, size: 7, width: 1, fill: () => css("--s" + s.look) },
      value: (u, v) => (v == null ? "–" : words(panel.y, v)),
    }));
    return {
      width: width,
      height: chart.panels.length === 1 ? (narrow ? 300 : 360) : narrow ? 170 : 190,
      padding: [10, 30, 0, 0],
      scales: { x: scale(chart.x, data[0]), y: { auto: false, distr: panel.y.log ? 3 : 1, log: 10, range: () => [panel.y.lo, panel.y.hi] } },
      axes: [axis(Object.assign({}, chart.x, last ? {} : { label: undefined }), narrow, 2), axis(panel.y, narrow, 3)],
      series: [{ label: chart.x.label, value: (u, v) => (v == null ? "–" : words(chart.x, v)) }].concat(series),
      cursor: { sync: { key: key, setSeries: false }, dataIdx: nearest, drag: { x: true, y: false }, focus: { prox: 24 }, points: { size: 9 } },
      focus: { alpha: 0.35 },
      legend: { live: true },
      hooks: { drawClear: [drawBelow(chart, panel)] },
    };
  }

  function build(figure, chart, key) {
    const place = figure.querySelector(".live");
    const width = Math.floor(place.clientWidth);
    if (width < 100 || figure.liveWidth === width) return;
    figure.liveWidth = width;
    (figure.plots || []).forEach((u) => u.destroy());
    figure.plots = chart.panels.map((panel, n) => {
      const data = aligned(panel.series);
      return new uPlot(options(chart, panel, n, n + 1 === chart.panels.length, width, key, data), data, place);
    });
    figure.classList.add("drawn");
  }

  const figures = Array.from(document.querySelectorAll("figure")).filter((f) => f.querySelector("script[type='application/json']"));
  const all = figures.map((figure, n) => {
    const chart = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
    const place = document.createElement("div");
    place.className = "live";
    figure.insertBefore(place, figure.querySelector("svg.wide"));
    const draw = () => build(figure, chart, "chart" + n);
    // A chart in a closed part of the page has no width yet.
    new ResizeObserver(() => requestAnimationFrame(draw)).observe(place);
    return [figure, draw];
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    all.forEach(([figure, draw]) => {
      figure.liveWidth = undefined;
      draw();
    })
  );
})();
