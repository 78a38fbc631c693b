// ---- Curves: memory over time, batches ready over steps. ----

const LINES = ['forward', 'wait', 'optimizer', 'communication', 'backward', 'copy', 'evaluate', 'other'];
const FRAME = { left: 62, right: 6, head: 8, height: 150 };

// options: {label, series: [{name, points: [[x, y], ...], stepped}], xName, xTick(x), xText(x), yText(y), yTicks(top),
// top}
function linesChart(options) {
  const { series } = options;
  const xs = [...new Set(series.flatMap(({ points }) => points.map((point) => point[0])))].sort((a, b) => a - b);
  const highest = Math.max(options.top || 0, ...series.flatMap(({ points }) => points.map((point) => point[1]))) || 1;
  const marks = options.yTicks(highest * 1.04);
  const top = marks.length > 1 && marks.at(-1) < highest ? marks.at(-1) + marks[1] - marks[0] : highest;
  const range = xs.at(-1) - xs[0] || 1;
  const scale = (width) => (x) => FRAME.left + ((x - xs[0]) / range) * (width - FRAME.left - FRAME.right);
  const text = (index) => {
    const values = series.map(({ name, points }) => [name, points.findLast((point) => point[0] <= xs[index])?.[1]]);
    const known = values.filter((pair) => pair[1] !== undefined);
    return `${options.xText(xs[index])}: ${known.map(([name, y]) => `${name} ${options.yText(y)}`).join(', ')}`;
  };
  const reader = chartReader('Point at the chart, or press the arrow keys, to read it.', () => xs.length, text,
    (picture, index) => {
      const x = index < 0 ? -10 : scale(picture.viewBox.baseVal.width)(xs[index]);
      picture.querySelector('.cursor').setAttribute('d', `M${x} ${FRAME.head}v${FRAME.height}`);
    });
  redrawn(reader.host, (width) => {
    const picture = drawLines(width, { ...options, xs, top, x: scale(width) }, reader);
    picture.addEventListener('pointermove', (event) => {
      const box = picture.getBoundingClientRect();
      const at = ((event.clientX - box.left) / box.width) * width;
      const off = xs.map((x) => Math.abs(scale(width)(x) - at));
      reader.select(off.indexOf(Math.min(...off)));
    });
    reader.show(picture);
  });
  const stroke = (i) => shape('svg.stroke', { viewBox: '0 0 26 10', 'aria-hidden': 'true' },
    shape(`path.line.l-${LINES[i]}`, { d: 'M1 5h24' }));
  const legend = el('ul.legend', series.map(({ name }, i) => el('li', stroke(i), ' ', name)));
  return el('div', reader.host, reader.readout, legend);
}

function drawLines(width, { label, series, xs, x, top, xName, xTick, yText, yTicks }, reader) {
  const { left, right, head, height } = FRAME;
  const y = (value) => head + height * (1 - value / top);
  const svg = reader.svg(width, head + height + 38, label);
  for (const tick of yTicks(top)) svg.append(...leftTick(left, width - right, y(tick), tick === 0 ? '0' : yText(tick)));
  for (const tick of ticks(xs[0], xs.at(-1), Math.floor(width / 110)).filter((value) => xTick(value) !== null)) {
    svg.append(bottomTick(x(tick), head + height + 16, width, xTick(tick)));
  }
  svg.append(shape('text.tick.middle', { x: (left + width) / 2, y: head + height + 34 }, xName));
  series.forEach(({ points, stepped }, i) => {
    const to = (point) => (stepped ? `H${x(point[0])}V${y(point[1])}` : `L${x(point[0])} ${y(point[1])}`);
    const [first, ...others] = points;
    svg.append(shape(`path.line.l-${LINES[i]}`, { d: `M${x(first[0])} ${y(first[1])}${others.map(to).join('')}` }));
  });
  const all = { x: left, y: 0, width: Math.max(1, width - left), height: head + height };
  svg.append(shape('path.cursor'), shape('rect.catch', all));
  return svg;
}

// Ticks that are round in KiB, MiB or GiB.
function byteTicks(top) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(top) / Math.log(1024)));
  return ticks(0, top / unit, 4).map((value) => value * unit);
}
const stepTick = (step) => (Number.isInteger(step) ? step.toLocaleString('en-US') : null);

function memoryChart(memory) {
  const byTime = memory.x === 'us';
  return linesChart({
    label: 'Memory',
    series: memory.curves.map((curve) => ({ ...curve, stepped: byTime })),
    xName: byTime ? 'time of the profile' : 'step',
    xTick: byTime ? (us) => (us === 0 ? '0' : duration(us)) : stepTick,
    xText: byTime ? (us) => `After ${duration(us)}` : (step) => `Step ${step}`,
    yText: bytes,
    yTicks: byteTicks,
  });
}

function queueChart({ bars, capacity }) {
  const last = bars.at(-1);
  const points = (at) => [...bars.map((bar) => [bar[0], bar[at]]), [last[1] + 1, last[at]]];
  const curve = (name, at) => ({ name, stepped: true, points: points(at) });
  const joined = bars.some((bar) => bar[0] !== bar[1]);
  return linesChart({
    label: 'Finished batches in the queue',
    series: joined ? [curve('ready, mean', 2), curve('lowest', 3)] : [curve('ready', 2)],
    xName: 'step',
    xTick: stepTick,
    xText: (step) => `Step ${step}`,
    yText: digits,
    yTicks: (top) => ticks(0, top, 4).filter(Number.isInteger),
    top: capacity || 0,
  });
}
