// ---- The page: the verdict first, then what to do, then the charts behind it. ----

const data = JSON.parse(document.getElementById('data').textContent);
const page = document.getElementById('page');
const several = data.ranks.length > 1;
let rank = data.ranks[0];

const section = (id, title, ...children) => el('section', { id, 'aria-labelledby': `${id}-title` }, el('h2', { id: `${id}-title` }, title), children);
const note = (text) => el('p', { class: 'note' }, text);
const badge = (severity) => el('span', { class: `badge s-${severity}` }, { critical: '▲ critical', warn: '● warning', info: 'info', healthy: '✓ healthy' }[severity]);
const scroller = (label, table) => el('div', { class: 'wide', tabindex: 0, role: 'region', 'aria-label': label }, table);
const list = (facts) => el('dl', { class: 'facts' }, facts.map(([name, text]) => el('div', {}, el('dt', {}, name), el('dd', {}, text))));

function fixBlocks(fix) {
  const block = (title, text, label) => {
    if (!text) return null;
    const code = el('code', {}, text);
    return el('figure', { class: 'fix' }, el('figcaption', {}, title, copyButton(label, text, code)), el('pre', { tabindex: 0, 'aria-label': title }, code));
  };
  const recipe = [block('In the recipe', fix.recipe, 'Copy recipe lines'), block('On the command line', fix.set, 'Copy options')];
  const code = block(fix.recipe ? 'In your own code' : 'Code or command', fix.code, 'Copy code');
  return el('div', { class: 'fixes' }, data.kind === 'trace' ? [code, ...recipe] : [...recipe, code]);
}

// The interval of a predicted gain: a line from low to high with a dot at the expected factor.
function gainPicture([low, expected, high]) {
  const most = Math.max(high, 1.5) * 1.05;
  const x = (value) => 4 + ((Math.min(Math.max(value, 0.8), most) - 0.8) / (most - 0.8)) * 192;
  return shape('svg', { class: 'gain', viewBox: '0 0 200 14', 'aria-hidden': 'true' },
    shape('path', { class: 'grid', d: `M${x(1)} 0v14M${x(1)} 7H196` }), shape('line', { class: 'range', x1: x(low), x2: x(high), y1: 7, y2: 7 }),
    shape('circle', { class: 'dot', cx: x(expected), cy: 7, r: 4 }));
}

function verdict() {
  const { text, severity, rule } = data.verdict;
  return el('header', { class: `verdict v-${severity}` },
    el('p', { class: 'over' }, `Stoker report: ${data.kind} `, el('bdi', {}, data.title)),
    el('h1', {}, text), el('p', {}, badge(severity), severity === 'healthy' ? null : el('span', { class: 'rule' }, `rule ${rule}`)));
}

function action() {
  if (data.action === null) {
    return section('action', 'What to do', note(data.verdict.severity === 'healthy' ? 'Nothing: the run is healthy.' : 'No recipe key or line of code mends this by itself; see the findings.'));
  }
  const finding = data.findings[data.action];
  const reason = data.action > 0 ? el('p', {}, finding.text) : null;
  const gain = finding.gain ? el('p', { class: 'promise' }, 'Predicted: ', el('strong', {}, finding.gain), `, confidence ${finding.confidence}.`) : null;
  return section('action', 'What to do', reason, fixBlocks(finding.fix), gain);
}

const figures = () => el('dl', { class: 'figures' }, data.figures.map(([name, text]) => el('div', {}, el('dt', {}, name), el('dd', {}, text))));

function rankChoice() {
  if (!several) return null;
  const choice = el('select', { on: { change: (event) => {
    rank = data.ranks[event.target.selectedIndex];
    for (const [id, make] of byRank) document.getElementById(id).replaceWith(make());
  } } }, data.ranks.map((each) => el('option', {}, `rank ${each.rank}`)));
  return el('p', { class: 'tools' }, el('label', {}, 'Account, workers, GPU and queue of ', choice));
}

function rankTable() {
  if (!several) return null;
  const share = (each, phase) => (each.shares || []).find((part) => part[0] === phase)?.[1] ?? 0;
  const phases = ['wait', 'communication', 'sync'].filter((phase) => data.ranks.some((each) => share(each, phase)));
  return scroller('Ranks', el('table', {}, el('caption', {}, 'Ranks side by side'),
    el('thead', {}, el('tr', {}, ['rank', 'steps', 'median step', 'longest step', ...phases].map((name) => el('th', { scope: 'col', class: 'number' }, name)))),
    el('tbody', {}, data.ranks.map((each) => el('tr', {}, [each.rank, each.steps.toLocaleString('en-US'), duration(each.median_us),
      duration(Math.max(0, ...each.bars.map((bar) => bar[3]))), ...phases.map((phase) => tenths(share(each, phase)))].map((text) => el('td', { class: 'number' }, text)))))));
}

function account() {
  if (!rank?.shares) return section('account', 'Where the time of a step goes', note('No steps were recorded.'));
  const { steps, device } = rank;
  const onDevice = new Map((device || []).map((part) => [part[0], part]));
  const headings = ['phase', 'share', 'time', 'per step', ...(device ? ['GPU, per step'] : [])];
  const cells = ([name, , us]) => [duration(us), duration(us / steps), ...(device ? [name === 'sum' ? duration(device.reduce((sum, part) => sum + part[2], 0) / steps) : duration((onDevice.get(name)?.[2] ?? 0) / steps)] : [])];
  return section('account', 'Where the time of a step goes',
    el('p', {}, several ? `The training thread of rank ${rank.rank}, ` : 'The training thread, ', `${count(steps, 'step')}. It is in one phase at any time; what no phase covers is “unmeasured”.`),
    stepsChart(rank),
    el('div', { class: 'columns' }, el('div', {}, el('h3', {}, 'All steps together'), sharesBar(rank.shares, 'Shares of the phases'),
      sharesTable(rank.shares, headings, cells, 'Shares of the training thread’s time')), evaluations()));
}

function evaluations() {
  if (!rank.evaluations) return null;
  const times = rank.evaluations.count;
  return el('div', {}, el('h3', {}, `Within ${count(times, 'evaluation')}`), sharesBar(rank.evaluations.shares, 'Shares of the phases in evaluation'),
    sharesTable(rank.evaluations.shares, ['phase', 'share', 'time', 'each'], ([, , us]) => [duration(us), duration(us / times)], 'Shares of the evaluations’ time'));
}

function gpu() {
  if (!rank?.gpu) return el('div', { id: 'gpu', hidden: true });
  const { parts, kernels, idle } = rank.gpu;
  const streams = idle.length === 0 ? null : scroller('Idle time by stream', el('table', {}, el('caption', {}, 'Why the streams were idle'),
      el('thead', {}, el('tr', {}, ['stream', 'host had not launched', 'usual gap of kernels', 'other'].map((name) => el('th', { scope: 'col', class: 'number' }, name)))),
      el('tbody', {}, idle.map(([stream, ...times]) => el('tr', {}, el('th', { scope: 'row', class: 'number' }, stream), times.map((time) => el('td', { class: 'number' }, duration(time))))))));
  return section('gpu', 'What the GPU did', el('p', {}, `From its first kernel to the end of its last, ${count(kernels, 'kernel')}. Non-compute: communication and copies while nothing computed.`),
    sharesBar(parts, 'What the GPU did'),
    el('div', { class: 'columns' }, sharesTable(parts, ['', 'share', 'time'], ([, , us]) => [duration(us)], 'Shares of the GPU’s time'), streams));
}

function workers() {
  const title = 'What the loader’s workers did';
  if (!rank?.workers) return section('workers', title, note('The stages of the workers were not recorded.'));
  const { stages, samples } = rank.workers;
  return section('workers', title, el('p', {}, `Time of all workers together, ${count(samples, 'sample')}. “Blocked” workers wait for a free slot in the queue: they are faster than the training.`),
    sharesBar(stages, 'Shares of the stages'), sharesTable(stages, ['stage', 'share', 'time', 'per sample'], ([, , us]) => [duration(us), samples ? duration(us / samples) : '–'], 'Shares of the workers’ time'));
}

function queue() {
  const title = 'Batches ready when a step asked';
  if (!rank?.queue) return section('queue', title, note('The occupancy of the queue was not recorded.'));
  const { steps, empty, capacity } = rank.queue;
  return section('queue', title, el('p', {}, `In ${percent(empty, steps)} of the steps no batch was ready, so the step waited.`, capacity === null ? null : ` The queue holds ${count(capacity, 'batch').replace(/batchs$/, 'batches')}.`), queueChart(rank.queue));
}

function finding(each) {
  return el('article', { class: `finding v-${each.severity}` },
    el('p', { class: 'head' }, badge(each.severity), el('span', { class: 'rule' }, each.rule), each.where ? el('span', { class: 'where' }, each.where) : null),
    el('h3', {}, each.text), each.evidence.length ? list(each.evidence) : null,
    each.gain ? el('p', { class: 'promise' }, gainPicture(each.gain_range), ' Predicted ', el('strong', {}, each.gain), `, confidence ${each.confidence}`) : null, each.fix ? fixBlocks(each.fix) : null);
}

// Sections that follow the chosen rank.
const byRank = [['account', account], ['workers', workers], ['gpu', gpu], ['queue', queue]];

function build() {
  const noProfile = data.timeline || data.flame || data.operators ? null : section('profile', 'Timeline, flame graph, operators', note('No profile was taken. “stoker profile RECIPE” adds them.'));
  const leftOut = data.timeline?.left_out ? note(`${count(data.timeline.left_out, 'span')} of further lanes or depths are not shown.`) : null;
  const parts = [
    verdict(), action(), figures(), rankChoice(), account(), rankTable(), workers(), gpu(),
    data.timeline && section('timeline', 'Timeline', timelineChart(data.timeline), leftOut),
    data.flame && section('flame', 'Flame graph', el('p', {}, 'Callers above, callees below; the width is time.'), flameChart(data.flame)),
    data.operators && section('operators', 'Operators', operatorsTable(data.operators)),
    noProfile,
    data.memory && section('memory', 'Memory', memoryChart(data.memory)),
    queue(),
    section('findings', 'Findings', data.findings.length ? data.findings.map(finding) : note('None: no rule found anything to report.')),
    data.facts.length || data.recipe.length ? section('facts', 'Facts', el('div', { class: 'groups' }, data.facts.map((group) => el('div', {}, el('h3', {}, group.title), list(group.facts)))),
      data.recipe.length ? el('details', {}, el('summary', {}, `Recipe: ${count(data.recipe.length, 'key')}`), list(data.recipe)) : null) : null,
    data.problems.length ? section('problems', 'What could not be read or shown', el('ul', {}, data.problems.map((text) => el('li', {}, text)))) : null,
  ].filter(Boolean);
  const contents = el('nav', { 'aria-label': 'Contents' }, parts.filter((part) => part.tagName === 'SECTION')
    .map((part) => el('a', { href: `#${part.id}` }, part.querySelector('h2').textContent)));
  parts.splice(3, 0, contents);
  document.title = `${data.title} – Stoker report`;
  page.append(...parts, live);
}

build();
