// ---- The sections. Each is a function of the data that makes an element, or nothing. ----

const section = (id, title, ...children) => el('section', { id, 'aria-labelledby': `${id}-title` },
  el('h2', { id: `${id}-title` }, title), children);
const note = (text) => el('p.note', text);
const facts = (list) => el('dl.facts', list.map(([name, text]) => el('div', el('dt', name), el('dd', text))));
const perUnit = (units) => ([, , us]) => [duration(us), units ? duration(us / units) : '–'];

const BADGES = { critical: '▲ critical', warn: '● warning', info: 'info', healthy: '✓ healthy' };
const badge = (severity) => el(`span.badge.s-${severity}`, BADGES[severity]);

function verdict({ kind, title, verdict: { text, severity, rule } }) {
  return el(`header.verdict.v-${severity}`,
    el('p.over', `Stoker report: ${kind} `, el('bdi', title)),
    el('h1', text),
    el('p', badge(severity), severity !== 'healthy' && el('span.rule', `rule ${rule}`)));
}

function fixes({ recipe, set, code }, recipeFirst) {
  const block = (title, text, label) => {
    const source = el('code', text);
    return text && el('figure.fix', el('figcaption', title, copyButton(label, text, source)),
      el('pre', source));
  };
  const ours = [block('In the recipe', recipe, 'Copy recipe lines'), block('On the command line', set, 'Copy options')];
  const theirs = block(recipe ? 'In your own code' : 'Code or command', code, 'Copy code');
  return el('div.fixes', recipeFirst ? [ours, theirs] : [theirs, ours]);
}

const promise = ({ gain, gain_range: range, confidence }) => gain
  && el('p.promise', gainPicture(range), ' Predicted: ', el('strong', gain), `, confidence ${confidence}.`);

// The interval of a predicted gain: a line from low to high with a dot at the expected factor. The tick is 1, no gain.
function gainPicture([low, expected, high]) {
  const most = Math.max(high, 1.5) * 1.05;
  const x = (value) => 4 + ((Math.min(Math.max(value, 0.9), most) - 0.9) / (most - 0.9)) * 112;
  return shape('svg.gain', { viewBox: '0 0 120 14', 'aria-hidden': 'true' },
    shape('path.track', { d: `M${x(1)} 1v12M${x(1)} 7H116` }),
    shape('path.range', { d: `M${x(low)} 7H${x(high)}` }),
    shape('circle.dot', { cx: x(expected), cy: 7, r: 4 }));
}

function action({ action: index, verdict: { severity, rule }, findings, recipe_first: recipeFirst }) {
  if (index === null) {
    return section('action', 'What to do', note(severity === 'healthy' ? 'Nothing: the run is healthy.'
      : rule === 'too-short' ? 'Train longer, then diagnose again.'
      : rule === 'no-ranges' ? 'Profile again with user annotations, then diagnose again.'
      : 'No recipe key or line of code mends this by itself; see the findings.'));
  }
  const finding = findings[index];
  return section('action', 'What to do', index > 0 && el('p', finding.text), fixes(finding.fix, recipeFirst), promise(finding));
}

const figures = (data) => data.figures.length > 0
  && el('dl.figures', data.figures.map(([name, text]) => el('div', el('dt', name), el('dd', text))));

function account(rank, several) {
  const title = 'Where the time of a step goes';
  if (!rank?.shares) return section('account', title, note('No steps were recorded.'));
  const { steps, judged: [first, last, judged], evaluations } = rank;
  const headings = ['phase', '#share', '#time', '#per step'];
  return section('account', title,
    el('p', `The training thread${several ? ` of rank ${rank.rank}` : ''}, ${count(steps, 'step')}. `,
      'It is in one phase at any time; what no phase covers is “unmeasured”.'),
    stepsChart(rank),
    el('div.columns',
      el('div', el('h3', judged === steps ? 'All steps together' : `The ${judged} steps that are judged, from ${first} to ${last}`),
        shares('Shares of the training thread’s time', rank.shares, headings, perUnit(judged))),
      evaluations && el('div',
        el('h3', `Within ${count(evaluations.count, 'evaluation')}`),
        shares('Shares of the evaluations’ time', evaluations.shares, ['phase', '#share', '#time', '#each'],
          perUnit(evaluations.count)))));
}

function ranksTable({ ranks }) {
  const share = (rank, phase) => (rank.shares || []).find((part) => part[0] === phase)?.[1] ?? 0;
  const phases = ['wait', 'communication', 'sync'].filter((phase) => ranks.some((rank) => share(rank, phase)));
  const longest = (rank) => Math.max(0, ...rank.bars.map((bar) => bar[3]));
  const rows = ranks.map((rank) => [`rank ${rank.rank}`, rank.steps.toLocaleString('en-US'), duration(rank.median_us),
    duration(longest(rank)), ...phases.map((phase) => tenths(share(rank, phase)))]);
  return section('ranks', 'Ranks side by side', table('',
    ['rank', '#steps', '#median step', '#longest step', ...phases.map((phase) => `#${phase}`)], rows));
}

function workers(rank) {
  const title = 'What the loader’s workers did';
  if (!rank?.workers) return section('workers', title, note('The stages of the workers were not recorded.'));
  const { stages, samples, on_device: onDevice } = rank.workers;
  const decoded = onDevice ? `, of which the GPU decoded ${(100 * onDevice / samples).toFixed(1)} %` : '';
  return section('workers', title,
    el('p', `Time of all workers together, ${count(samples, 'sample')}${decoded}. `,
      '“Blocked” workers wait for a free slot in the queue: they are faster than the training.'),
    shares('Shares of the workers’ time', stages, ['stage', '#share', '#time', '#per sample'], perUnit(samples)));
}

function gpu(rank) {
  if (!rank?.gpu) return el('div', { id: 'gpu', hidden: true });
  const { parts, kernels, idle } = rank.gpu;
  const headings = ['part', '#share', '#time'];
  const [bar, legend] = shares('Shares of the GPU’s time', parts, headings, ([, , us]) => [duration(us)]);
  const rows = idle.map(([stream, ...times]) => [`stream ${stream}`, ...times.map(duration)]);
  return section('gpu', 'What the GPU did',
    el('p', `From its first kernel to the end of its last, ${count(kernels, 'kernel')}. `,
      'Non-compute: communication and copies while nothing computed.'),
    bar,
    el('div.columns', legend, rows.length > 0
      && table('Why the streams were idle', ['stream', '#host had not launched', '#gap of kernels', '#other'], rows)));
}

function functions({ rank, steps, rows }) {
  const each = (us) => duration(us / Math.max(1, steps));
  return section('functions', 'Python functions',
    el('p', `Rank ${rank} in ${count(steps, 'step')} under cProfile, which slows short functions most. `,
      '“Own” is without the functions that it calls.'),
    table('', ['function', '#calls', '#own', '#own, per step', '#with callees'], rows.map(([name, place, calls, own, all]) => [
      el('span', el('span.code', name), place && ' at ', place && el('span.code', place)), calls.toLocaleString('en-US'),
      duration(own), each(own), duration(all)])));
}

function queue(rank) {
  const title = 'Batches ready when a step asked';
  if (!rank?.queue) return section('queue', title, note('The occupancy of the queue was not recorded.'));
  const { steps, empty, capacity } = rank.queue;
  return section('queue', title,
    el('p', `In ${percent(empty, steps)} of the steps no batch was ready, so the step waited.`,
      capacity !== null && ` The queue holds ${count(capacity, 'batch', 'batches')}.`),
    queueChart(rank.queue));
}

function finding(each, recipeFirst) {
  return el(`article.finding.v-${each.severity}`,
    el('p.head', badge(each.severity), el('span.rule', each.rule), each.where && el('span.where', each.where)),
    el('h3', each.text),
    each.evidence.length > 0 && facts(each.evidence),
    promise(each),
    each.fix && fixes(each.fix, recipeFirst));
}

const findings = (data) => section('findings', 'Findings', data.findings.length
  ? data.findings.map((each) => finding(each, data.recipe_first)) : note('None: no rule found anything to report.'));

function factsOf({ facts: groups, recipe }) {
  return groups.length + recipe.length > 0 && section('facts', 'Facts',
    groups.map((group) => [el('h3', group.title), facts(group.facts)]),
    recipe.length > 0 && el('details', el('summary', `Recipe: ${count(recipe.length, 'key')}`), facts(recipe)));
}

const problems = (data) => data.problems.length > 0 && section('problems', 'What could not be read or shown',
  el('ul', data.problems.map((text) => el('li', text))));
