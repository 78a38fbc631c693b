// ---- The account: stacked bars over steps, and shares as one bar with its legend. ----

// Bars are means over their steps. The mark above a bar is its longest step. A few very long steps would press all others
// flat, so the axis ends at four times the median bar, and what lies beyond is drawn with an arrow.
function stepsChart(rank) {
  let bars = stepBars(rank, Infinity);
  const means = bars.map((bar) => bar.mean).sort((a, b) => a - b);
  const highest = Math.max(...bars.map((bar) => bar.peak));
  const top = Math.min(highest, 4 * means[Math.floor(means.length / 2)]) || highest || 1;
  const describe = (bar) => {
    const steps = bar.first === bar.last ? `Step ${bar.first}` : `Steps ${bar.first} to ${bar.last}, mean`;
    const parts = rank.phases.map((phase, i) => [phase, bar.times[i]]).filter((part) => part[1] > 0).sort((a, b) => b[1] - a[1])
      .slice(0, 5).map(([phase, time]) => `${phase} ${duration(time)}`);
    const peak = bar.steps > 1 ? `; longest: step ${bar.peakStep}, ${duration(bar.peak)}` : '';
    return `${steps}: ${duration(bar.mean)} (${parts.join(', ')})${peak}`;
  };
  const hint = 'Point at a bar, or press the arrow keys, to read it.';
  const readout = el('p', { class: 'readout' }, hint);
  const host = el('div', { class: 'chart' });
  let selected = -1;
  let picture = null;
  const select = (index) => {
    selected = index;
    readout.textContent = index < 0 ? hint : describe(bars[index]);
    picture?.querySelectorAll('.bar').forEach((bar, i) => bar.classList.toggle('selected', i === index));
    picture?.setAttribute('aria-valuenow', index + 1);
    picture?.setAttribute('aria-valuetext', readout.textContent);
  };
  const move = (event) => {
    const to = { ArrowLeft: Math.max(0, selected - 1), ArrowRight: Math.min(bars.length - 1, selected + 1), Home: 0, End: bars.length - 1, Escape: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    select(to);
  };
  const legend = el('ul', { class: 'legend' });
  redrawn(host, (width) => {
    bars = stepBars(rank, width / 6);
    selected = -1;
    const joined = bars[0].steps > 1;
    legend.replaceChildren(...[joined && `A bar is the mean of ${bars[0].steps} steps`, joined && '– its longest step',
      highest > top && `▲ longer than the axis (at most ${duration(highest)})`].filter(Boolean).map((text) => el('li', {}, text)));
    picture = drawSteps(width, rank, bars, top, { keydown: move, pointerleave: () => select(-1) }, (index) => select(index));
    host.replaceChildren(picture);
    select(selected);
  });
  return el('div', {}, host, readout, legend);
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

function drawSteps(width, rank, bars, top, on, select) {
  const [left, right, head, height] = [54, 4, 14, 220];
  const y = (time) => head + height * (1 - Math.min(time, top) / top);
  const each = (width - left - right) / bars.length;
  const gap = each > 4 ? 1 : 0;
  const svg = shape('svg', { viewBox: `0 0 ${width} ${head + height + 38}`, role: 'slider', tabindex: 0, class: 'steps', on,
    'aria-label': `Time of a step by phase, over ${count(rank.steps, 'step')}`, 'aria-valuemin': 0, 'aria-valuemax': bars.length });
  for (const tick of ticks(0, top, 4)) {
    svg.append(shape('line', { class: 'grid', x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
      shape('text', { class: 'tick end', x: left - 6, y: y(tick) + 4 }, tick === 0 ? '0' : duration(tick)));
  }
  bars.forEach((bar, i) => {
    const group = shape('g', { class: 'bar', on: { pointerenter: () => select(i), click: () => select(i) } });
    const x = left + i * each;
    let sum = 0;
    rank.phases.forEach((phase, j) => {
      const [from, to] = [y(sum), y(sum + bar.times[j])];
      sum += bar.times[j];
      if (from - to < 0.05) return;
      const box = { x: x + gap / 2, y: to, width: Math.max(0.5, each - gap), height: from - to };
      group.append(shape('rect', { class: colour(phase), ...box }));
      const texture = textures(phase, box.x, box.y, box.width, box.height);
      if (texture) group.append(texture);
    });
    const middle = x + each / 2;
    const half = Math.max(1, Math.min(5, each / 2 - gap));
    if (bar.peak > top) group.append(shape('path', { class: 'beyond', d: `M${middle - 4} ${head - 3}l4 -7l4 7z` }));
    else if (bar.steps > 1) group.append(shape('line', { class: 'peak', x1: middle - half, x2: middle + half, y1: y(bar.peak), y2: y(bar.peak) }));
    group.append(shape('rect', { class: 'catch', x, y: 0, width: each, height: head + height }));
    svg.append(group);
  });
  const [first, last] = [bars[0].first, bars[bars.length - 1].last];
  const x = (step) => left + ((step - first + 0.5) / (last - first + 1)) * (width - left - right);
  for (const tick of ticks(first, last, Math.floor(width / 90)).filter(Number.isInteger)) {
    const at = x(tick);
    svg.append(shape('text', { class: `tick ${at > width - 30 ? 'end' : 'middle'}`, x: Math.min(at, width - 1), y: head + height + 16 }, tick.toLocaleString('en-US')));
  }
  svg.append(shape('text', { class: 'tick middle', x: (left + width) / 2, y: head + height + 34 }, 'step'));
  return svg;
}

// `parts` are [name, tenths of a percent, microseconds]: one bar, and a table that names its parts.
function sharesBar(parts, label) {
  const host = el('div', { class: 'chart' });
  redrawn(host, (width) => {
    const svg = shape('svg', { viewBox: `0 0 ${width} 26`, role: 'img', 'aria-label': `${label}: ${parts.map(([name, share]) => `${name} ${tenths(share)}`).join(', ')}` });
    const sum = parts.reduce((all, part) => all + part[1], 0) || 1;
    let x = 0;
    for (const [name, share] of parts) {
      const wide = (share / sum) * width;
      if (wide > 0) {
        const box = [x, 0, Math.max(0.5, wide - 1), 26];
        svg.append(shape('rect', { class: colour(name), x: box[0], y: box[1], width: box[2], height: box[3] }));
        const texture = textures(name, ...box);
        if (texture) svg.append(texture);
      }
      x += wide;
    }
    host.replaceChildren(svg);
  });
  return host;
}

// A legend that is a table: name, share, time, time of a step or sample.
function sharesTable(parts, headings, cells, caption) {
  const total = parts.reduce((all, part) => all + part[1], 0);
  const row = (name, values) => el('tr', {}, el('th', { scope: 'row' }, name), values.map((value) => el('td', { class: 'number' }, value)));
  return el('table', { class: 'shares' }, el('caption', {}, caption),
    el('thead', {}, el('tr', {}, headings.map((heading, i) => el('th', { scope: 'col', class: i ? 'number' : null }, heading)))),
    el('tbody', {}, parts.map((part) => row([swatch(part[0]), ' ', part[0]], [tenths(part[1]), ...cells(part)]))),
    el('tfoot', {}, row('sum', [tenths(total), ...cells(['sum', total, parts.reduce((all, part) => all + part[2], 0)])])));
}
