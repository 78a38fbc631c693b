// ---- Curves: memory over time, batches ready over steps. ----

const LINES = ['forward', 'wait', 'optimizer', 'communication', 'backward', 'copy', 'evaluate', 'other'];

// options: {label, series: [{name, points: [[x, y], ...], stepped}], xText(x), yText(y), xName, top, yTicks}
function linesChart(options) {
  const xs = [...new Set(options.series.flatMap((series) => series.points.map((point) => point[0])))].sort((a, b) => a - b);
  const highest = Math.max(options.top || 0, ...options.series.flatMap((series) => series.points.map((point) => point[1]))) || 1;
  const marks = options.yTicks(highest * 1.04);
  const top = marks.length > 1 && marks.at(-1) < highest ? marks.at(-1) + marks[1] - marks[0] : highest;
  const valueAt = (series, x) => series.points.findLast((point) => point[0] <= x)?.[1];
  const hint = 'Point at the chart, or press the arrow keys, to read it.';
  const readout = el('p', { class: 'readout' }, hint);
  const host = el('div', { class: 'chart' });
  let at = -1;
  let picture = null;
  const frame = { left: 62, right: 6, head: 8, height: 150 };
  const xOf = (x, width) => frame.left + ((x - xs[0]) / (xs.at(-1) - xs[0] || 1)) * (width - frame.left - frame.right);
  const select = (index) => {
    at = index;
    const values = at < 0 ? [] : options.series.map((series) => [series.name, valueAt(series, xs[at])]).filter((pair) => pair[1] !== undefined);
    readout.textContent = at < 0 ? hint : `${options.xText(xs[at])}: ${values.map(([name, value]) => `${name} ${options.yText(value)}`).join(', ')}`;
    if (!picture) return;
    picture.setAttribute('aria-valuenow', at + 1);
    picture.setAttribute('aria-valuetext', readout.textContent);
    const cursor = picture.querySelector('.cursor');
    cursor.toggleAttribute('hidden', at < 0);
    if (at >= 0) for (const end of ['x1', 'x2']) cursor.setAttribute(end, xOf(xs[at], picture.viewBox.baseVal.width));
  };
  const on = {
    keydown: (event) => {
      const to = { ArrowLeft: Math.max(0, at - 1), ArrowRight: Math.min(xs.length - 1, at + 1), Home: 0, End: xs.length - 1, Escape: -1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      select(to);
    },
    pointermove: (event) => {
      const box = picture.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * picture.viewBox.baseVal.width;
      const off = (value) => Math.abs(xOf(value, picture.viewBox.baseVal.width) - x);
      select(xs.reduce((best, value, i) => (off(value) < off(xs[best]) ? i : best), 0));
    },
    pointerleave: () => select(-1),
  };
  redrawn(host, (width) => {
    picture = drawLines(width, options, frame, xs, top, xOf, on);
    host.replaceChildren(picture);
    select(at);
  });
  const legend = el('ul', { class: 'legend' }, options.series.map((series, i) => el('li', {},
    shape('svg', { class: 'stroke', viewBox: '0 0 26 10', 'aria-hidden': 'true' }, shape('path', { class: `line l-${LINES[i]}`, d: 'M1 5h24' })), ' ', series.name)));
  return el('div', {}, host, readout, legend);
}

function drawLines(width, options, frame, xs, top, xOf, on) {
  const { left, right, head, height } = frame;
  const y = (value) => head + height * (1 - value / top);
  const svg = shape('svg', { viewBox: `0 0 ${width} ${head + height + 38}`, role: 'slider', tabindex: 0, 'aria-label': options.label,
    'aria-valuemin': 0, 'aria-valuemax': xs.length, on });
  for (const tick of options.yTicks(top)) {
    svg.append(shape('line', { class: 'grid', x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
      shape('text', { class: 'tick end', x: left - 6, y: y(tick) + 4 }, tick === 0 ? '0' : options.yText(tick)));
  }
  for (const tick of ticks(xs[0], xs.at(-1), Math.floor(width / 110))) {
    const x = xOf(tick, width);
    svg.append(shape('text', { class: `tick ${x > width - 40 ? 'end' : 'middle'}`, x, y: head + height + 16 }, options.xTick(tick)));
  }
  svg.append(shape('text', { class: 'tick middle', x: (left + width) / 2, y: head + height + 34 }, options.xName));
  options.series.forEach((series, i) => {
    let path = '';
    series.points.forEach(([x, value], j) => {
      path += j === 0 ? `M${xOf(x, width)} ${y(value)}` : series.stepped ? `H${xOf(x, width)}V${y(value)}` : `L${xOf(x, width)} ${y(value)}`;
    });
    svg.append(shape('path', { class: `line l-${LINES[i]}`, d: path }));
  });
  svg.append(shape('line', { class: 'cursor', hidden: true, y1: head, y2: head + height }),
    shape('rect', { class: 'catch', x: left, y: 0, width: Math.max(1, width - left - right), height: head + height }));
  return svg;
}

// Ticks that are round in KiB, MiB or GiB.
function byteTicks(top) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(top) / Math.log(1024)));
  return ticks(0, top / unit, 4).map((value) => value * unit);
}

function memoryChart(memory) {
  const byTime = memory.x === 'us';
  return linesChart({ label: 'Memory', xName: byTime ? 'time of the profile' : 'step', yText: bytes, yTicks: byteTicks,
    series: memory.curves.map((curve) => ({ ...curve, stepped: byTime })),
    xTick: (x) => (x === 0 ? '0' : byTime ? duration(x) : x.toLocaleString('en-US')),
    xText: (x) => (byTime ? `After ${duration(x)}` : `Step ${x}`) });
}

function queueChart(queue) {
  const last = queue.bars.at(-1);
  const points = (column) => [...queue.bars.map((bar) => [bar[0], bar[column]]), [last[1] + 1, last[column]]];
  const joined = queue.bars.some((bar) => bar[0] !== bar[1]);
  const series = joined ? [{ name: 'ready, mean', points: points(2), stepped: true }, { name: 'lowest', points: points(3), stepped: true }]
    : [{ name: 'ready', points: points(2), stepped: true }];
  return linesChart({ label: 'Finished batches in the queue', series, xName: 'step', top: queue.capacity || 0, yText: digits,
    yTicks: (top) => ticks(0, top, 4).filter(Number.isInteger), xTick: (x) => x.toLocaleString('en-US'), xText: (x) => `Step ${x}` });
}
