// ---- The account: stacked bars over steps. ----

// Bars are means over their steps; the mark above a bar is its longest step. A few very long steps would press all
// others flat, so the axis ends at four times the median bar, and what lies beyond it is drawn with an arrow.
function stepsChart(rank) {
  let bars = stepBars(rank, Infinity);
  const means = bars.map((bar) => bar.mean).sort((a, b) => a - b);
  const highest = Math.max(...bars.map((bar) => bar.peak));
  const top = Math.min(highest, 4 * means[Math.floor(means.length / 2)]) || highest || 1;
  const legend = el('ul.legend');
  const reader = chartReader('Point at a bar, or press the arrow keys, to read it.', () => bars.length,
    (index) => barText(rank, bars[index]),
    (picture, index) => {
      picture.querySelectorAll('.bar').forEach((bar, i) => bar.classList.toggle('selected', i === index));
    });
  redrawn(reader.host, (width) => {
    bars = stepBars(rank, width / 6);
    const joined = bars[0].steps > 1;
    const lines = [joined && `A bar is the mean of ${bars[0].steps} steps`, joined && '– its longest step',
      highest > top && `▲ longer than the axis (at most ${duration(highest)})`];
    legend.replaceChildren(...lines.filter(Boolean).map((text) => el('li', text)));
    reader.show(drawSteps(width, rank, bars, top, reader));
  });
  return el('div', reader.host, reader.readout, legend);
}

// At most `most` bars; several of the data's bars may be joined. Times are means over a bar's steps.
function stepBars(rank, most) {
  const width = Math.max(1, Math.ceil(rank.bars.length / Math.max(1, most)));
  const bars = [];
  rank.bars.forEach(([first, last, steps, peak, peakStep, ...times], i) => {
    if (i % width === 0) bars.push({ first, steps: 0, peak: -1, times: times.map(() => 0) });
    const bar = bars[bars.length - 1];
    bar.last = last;
    bar.steps += steps;
    if (peak > bar.peak) [bar.peak, bar.peakStep] = [peak, peakStep];
    bar.times = bar.times.map((time, j) => time + times[j]);
  });
  for (const bar of bars) {
    bar.times = bar.times.map((time) => time / bar.steps);
    bar.mean = bar.times.reduce((a, b) => a + b, 0);
  }
  return bars;
}

function barText(rank, bar) {
  const steps = bar.first === bar.last ? `Step ${bar.first}` : `Steps ${bar.first} to ${bar.last}, mean`;
  const parts = rank.phases.map((phase, i) => [phase, bar.times[i]]).filter((part) => part[1] > 0);
  const largest = parts.sort((a, b) => b[1] - a[1]).slice(0, 5).map(([phase, time]) => `${phase} ${duration(time)}`);
  const peak = bar.steps > 1 ? `; longest: step ${bar.peakStep}, ${duration(bar.peak)}` : '';
  return `${steps}: ${duration(bar.mean)} (${largest.join(', ')})${peak}`;
}

function drawSteps(width, rank, bars, top, reader) {
  const [left, right, head, height] = [54, 4, 14, 220];
  const y = (time) => head + height * (1 - Math.min(time, top) / top);
  const each = (width - left - right) / bars.length;
  const svg = reader.svg(width, head + height + 38, `Time of a step by phase, over ${count(rank.steps, 'step')}`);
  for (const tick of ticks(0, top, 4)) {
    svg.append(...leftTick(left, width - right, y(tick), tick === 0 ? '0' : duration(tick)));
  }
  bars.forEach((bar, i) => {
    const on = { pointerenter: () => reader.select(i), click: () => reader.select(i) };
    svg.append(drawBar(bar, rank.phases, { x: left + i * each, each, head, height, y, top }, on));
  });
  const [first, last] = [bars[0].first, bars[bars.length - 1].last];
  for (const tick of ticks(first, last, Math.floor(width / 90)).filter(Number.isInteger)) {
    const x = left + ((tick - first + 0.5) / (last - first + 1)) * (width - left - right);
    svg.append(bottomTick(x, head + height + 16, width, tick.toLocaleString('en-US')));
  }
  svg.append(shape('text.tick.middle', { x: (left + width) / 2, y: head + height + 34 }, 'step'));
  return svg;
}

function drawBar(bar, phases, { x, each, head, height, y, top }, on) {
  const group = shape('g.bar', { on });
  const gap = each > 4 ? 1 : 0;
  let sum = 0;
  phases.forEach((phase, i) => {
    const [from, to] = [y(sum), y(sum + bar.times[i])];
    sum += bar.times[i];
    if (from - to < 0.05) return;
    group.append(...filled(phase, { x: x + gap / 2, y: to, width: Math.max(0.5, each - gap), height: from - to }));
  });
  const middle = x + each / 2;
  const half = Math.max(1, Math.min(5, each / 2 - gap));
  if (bar.peak > top) group.append(shape('path.beyond', { d: `M${middle - 4} ${head - 3}l4 -7l4 7z` }));
  else if (bar.steps > 1) group.append(shape('path.peak', { d: `M${middle - half} ${y(bar.peak)}h${2 * half}` }));
  group.append(shape('rect.catch', { x, y: 0, width: each, height: head + height }));
  return group;
}
