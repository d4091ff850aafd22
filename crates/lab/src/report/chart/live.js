// From what is to be drawn (the JSON in each figure, in the units that are shown) to uPlot: light and dark, values under the pointer, zoom, series that
// can be switched off. The static picture beside it is shown where this does not run, and on paper.
(function () {
  "use strict";
  const root = document.documentElement;
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const colour = (look) => () => css("--s" + look);
  const DASHES = { 3: [7, 3], 5: [2, 3], 7: [9, 3, 2, 3] };
  const FONT = "12px system-ui, sans-serif";
  const BACKGROUND = 32;

  // Three significant digits or more, thousands apart, as in the tables.
  const digits = (more) => new Intl.NumberFormat("en-US", Object.assign({ maximumSignificantDigits: 3, maximumFractionDigits: 0, roundingPriority: "morePrecision" }, more));
  const format = (numbers) => (v) => (v === 0 ? "0" : numbers.format(v));
  const exact = format(digits({ minimumSignificantDigits: 3 })), plain = format(digits());
  function percentile(v) {
    const tens = Math.log10(v), whole = Math.abs(tens - Math.round(tens)) < 1e-9;
    return v <= 1 ? "0" : (100 - 100 / v).toFixed(Math.max(0, whole ? Math.round(tens) - 2 : Math.ceil(tens) - 1));
  }
  function words(axis, v, number) {
    const tick = axis.ticks.find((t) => t[0] === v);
    return tick ? tick[1] : axis.percentile ? percentile(v) : number(v);
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
      if (s.shape === "area") {
        fill = new Path2D(line);
        const base = u.bbox.top + u.bbox.height;
        fill.lineTo(place(s.points[s.points.length - 1])[0], base);
        fill.lineTo(place(s.points[0])[0], base);
        fill.closePath();
      }
      return { stroke: line, fill: fill, clip: null, band: null, gaps: null, flags: 0 };
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

  function axis(spec, key, side, title) {
    return {
      scale: key,
      side: side,
      label: title ? spec.title : undefined,
      labelSize: 20,
      labelFont: FONT,
      font: FONT,
      size: side === 2 ? 30 : 52,
      stroke: () => css("--text"),
      grid: { stroke: () => css("--grid"), width: 1 },
      ticks: { stroke: () => css("--axis"), width: 1, size: 4 },
      values: (u, splits) => {
        const all = splits.map((v) => (v == null ? "" : words(spec, v, plain)));
        if (side !== 2) return all;
        // A text without room gives way; its line stays.
        let free = -Infinity;
        return splits.map((v, i) => {
          const at = u.valToPos(v, key), half = all[i].length * 3.6;
          if (at - half < free) return "";
          if (all[i]) free = at + half + 6;
          return all[i];
        });
      },
    };
  }

  // The whole axis has the ticks that it came with; a part of it those of the library, unless all its values have names.
  function ticks(spec, n) {
    return (u) => {
      const { splits, filter } = u.axes[n];
      const own = (min, max) => spec.named || (min <= spec.lo && max >= spec.hi);
      u.axes[n].splits = (u, n, min, max, ...more) =>
        own(min, max) ? spec.ticks.map((t) => t[0]).filter((v) => v >= min && v <= max) : splits(u, n, min, max, ...more);
      u.axes[n].filter = (u, list, ...more) => {
        const s = u.scales[u.axes[n].scale];
        return own(s.min, s.max) ? list : filter(u, list, ...more);
      };
    };
  }

  function scale(spec, more) {
    return Object.assign({ time: false, distr: spec.log ? 3 : 1, log: 10, auto: false, range: () => [spec.lo, spec.hi] }, more);
  }

  // A plot of a chart over an axis.
  function plot(chart, n, width, key) {
    const panel = chart.panels[n], narrow = width < 560, data = aligned(panel.series);
    const whole = (min, max) => data[0].length === 0 || min == null || (min <= data[0][0] && max >= data[0][data[0].length - 1]);
    const series = panel.series.map((s) => ({
      label: s.name,
      scale: "y",
      stroke: colour(s.look),
      fill: s.shape === "area" ? () => css("--s" + s.look) + "40" : undefined,
      width: 2,
      dash: DASHES[s.look],
      paths: path(s),
      spanGaps: true,
      points: { show: s.shape === "dots" || s.points.length === 1, size: 7, width: 1, fill: colour(s.look) },
      value: (u, v) => (v == null ? "–" : exact(v)),
    }));
    const options = {
      width: width,
      height: chart.panels.length === 1 ? (narrow ? 300 : 360) : narrow ? 170 : 190,
      padding: [10, 30, 0, 0],
      scales: { x: scale(chart.x, { auto: true, range: (u, min, max) => (whole(min, max) ? [chart.x.lo, chart.x.hi] : [min, max]) }), y: scale(panel.y) },
      axes: [axis(chart.x, "x", 2, n + 1 === chart.panels.length), axis(panel.y, "y", 3, true)],
      series: [{ label: chart.x.title, value: (u, v) => (v == null ? "–" : words(chart.x, v, exact)) }].concat(series),
      cursor: { sync: { key: key, setSeries: false }, dataIdx: nearest, drag: { x: true, y: false }, focus: { prox: 24 }, points: { size: 9 } },
      focus: { alpha: 0.35 },
      hooks: { init: [ticks(chart.x, 0), ticks(panel.y, 1)], drawClear: [drawBelow(chart, panel)] },
    };
    return [options, data];
  }

  // Bars lying on their side: uPlot's x axis, by which it finds what is under the pointer, goes down the page and counts pixels.
  function bars(chart, width) {
    const rows = chart.names.length * chart.pitch, { bar, name, pitch } = chart;
    const top = (group, k) => group * pitch + name + k * bar + 1;
    const middle = chart.names.map((_, group) => (group + 0.5) * pitch);
    const shape = (k) =>
      uPlot.paths.bars({ disp: { x0: { unit: 1, values: () => middle.map((_, group) => top(group, k)) }, size: { unit: 1, values: () => middle.map(() => bar - 2) } } });
    const series = chart.series.map((s, k) => ({
      label: s.name,
      scale: "y",
      fill: colour(s.look),
      width: 0,
      paths: shape(k),
      points: { show: false },
      fillTo: chart.from,
      value: (u, v, n, group) => (group == null || s.values[group] == null ? "–" : s.values[group].text),
    }));
    // The bar under the pointer, in CSS pixels.
    const box = (u, n) => {
      const group = u.cursor.idxs[n], value = group == null ? null : u.data[n][group];
      if (value == null) return { left: -10, top: -10, width: 0, height: 0 };
      const ends = [u.valToPos(chart.from, "y"), u.valToPos(value, "y")];
      return { left: Math.min(...ends), top: u.valToPos(top(group, n - 1), "x"), width: Math.abs(ends[1] - ends[0]), height: bar - 2 };
    };
    const options = {
      width: width,
      height: rows + 60,
      padding: [10, Math.max(28, chart.room), 0, 28],
      scales: { x: { time: false, ori: 1, dir: -1, auto: false, range: () => [0, rows] }, y: scale(chart.x, { ori: 0, auto: true }) },
      axes: [{ show: false }, axis(chart.x, "y", 2, true)],
      series: [{ label: "case", value: (u, v, n, group) => (group == null ? "–" : chart.names[group]) }].concat(series),
      cursor: { x: false, y: false, drag: { x: false, y: true }, points: { width: 0, fill: () => css("--text") + BACKGROUND, bbox: box } },
      hooks: { init: [ticks(chart.x, 1)], draw: [(u) => drawTexts(u, chart, top)] },
    };
    return [options, [middle].concat(chart.series.map((s) => s.values.map((v) => v && v.at)))];
  }

  function drawTexts(u, chart, top) {
    const { ctx, bbox } = u, dots = devicePixelRatio, wide = ctx.canvas.width;
    const across = (v) => Math.min(Math.max(u.valToPos(v, "y", true), bbox.left), bbox.left + bbox.width), down = (v) => u.valToPos(v, "x", true);
    ctx.save();
    ctx.font = 12 * dots + FONT.slice(2);
    ctx.fillStyle = ctx.strokeStyle = css("--text");
    ctx.lineWidth = 1.5 * dots;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    const line = (...points) => {
      ctx.beginPath();
      points.forEach((p, i) => (i ? ctx.lineTo(...p) : ctx.moveTo(...p)));
      ctx.stroke();
    };
    chart.names.forEach((name, group) => {
      let text = name;
      for (let n = name.length; n > 0 && bbox.left + ctx.measureText(text).width > wide; n--) text = name.slice(0, n - 1) + "…";
      ctx.fillText(text, bbox.left, down(group * chart.pitch + chart.name / 2));
      chart.series.forEach((s, k) => {
        const value = s.values[group];
        if (value == null || !u.series[k + 1].show) return;
        const y = down(top(group, k) + chart.bar / 2 - 1), ends = [chart.from, value.at].concat(value.interval || []).map(across);
        if (value.interval) {
          const [low, high] = ends.slice(2), h = 4 * dots;
          line([low, y], [high, y]);
          line([low, y - h], [low, y + h]);
          line([high, y - h], [high, y + h]);
        }
        ctx.fillText(value.text, Math.max(...ends) + 4 * dots, y);
      });
    });
    ctx.restore();
  }

  function build(figure, chart, key) {
    const place = figure.querySelector(".live");
    const width = Math.floor(place.clientWidth);
    if (width < 100 || figure.liveWidth === width) return;
    figure.liveWidth = width;
    (figure.plots || []).forEach((u) => u.destroy());
    const all = chart.panels ? chart.panels.map((_, n) => plot(chart, n, width, key)) : [bars(chart, width)];
    figure.plots = all.map(([options, data]) => new uPlot(options, data, place));
    figure.classList.add("drawn");
  }

  const all = Array.from(document.querySelectorAll("figure"), (figure, n) => {
    const chart = JSON.parse(figure.querySelector("script").textContent);
    const place = document.createElement("div");
    place.className = chart.panels ? "live" : "live bars";
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
