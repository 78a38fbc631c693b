// ---- The page: the verdict first, then what to do, then the charts behind it. ----

const data = JSON.parse(document.getElementById('data').textContent);
const several = data.ranks.length > 1;

// Sections that follow the chosen rank.
const BY_RANK = { account: (rank) => account(rank, several), workers, gpu, queue };
const ofRank = (id, rank) => BY_RANK[id](rank);

function rankChoice() {
  const change = (event) => {
    for (const id of Object.keys(BY_RANK)) {
      document.getElementById(id).replaceWith(ofRank(id, data.ranks[event.target.selectedIndex]));
    }
  };
  const options = data.ranks.map(({ rank }) => el('option', `rank ${rank}`));
  return el('p.tools', el('label', 'Account, workers, GPU and queue of ', el('select', { on: { change } }, options)));
}

function timeline() {
  if (!data.timeline) return null;
  const { left_out: leftOut } = data.timeline;
  return section('timeline', 'Timeline', timelineChart(data.timeline),
    leftOut > 0 && note(`${count(leftOut, 'span')} of further lanes or depths are not shown.`));
}

const [first] = data.ranks;
const sections = [
  several && rankChoice(),
  ofRank('account', first),
  several && ranksTable(data),
  ofRank('workers', first),
  ofRank('gpu', first),
  timeline(),
  data.flame && section('flame', 'Flame graph', el('p', 'Callers above, callees below; the width is time.'),
    flameChart(data.flame)),
  data.operators && section('operators', 'Operators', operatorsTable(data.operators)),
  data.functions && functions(data.functions),
  !data.timeline && !data.flame && !data.operators && section('profile', 'Timeline, flame graph, operators',
    note('No profile was taken. “stoker profile RECIPE” adds them, and for a script “python -m stoker bottleneck SCRIPT”.')),
  data.memory && section('memory', 'Memory', memoryChart(data.memory)),
  ofRank('queue', first),
  findings(data),
  factsOf(data),
  problems(data),
].filter(Boolean);
const contents = el('nav', { 'aria-label': 'Contents' }, sections.filter((part) => part.tagName === 'SECTION')
  .map((part) => el('a', { href: `#${part.id}` }, part.querySelector('h2').textContent)));

document.title = `${data.title} – Stoker report`;
document.getElementById('page').append(
  ...[verdict(data), action(data), figures(data), contents, ...sections, live].filter(Boolean));
