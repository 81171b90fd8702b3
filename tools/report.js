/* tools/report.js - draws the page of a plan from the document in #data (schema apc.report/1): the head, layers, limits
 * and operations.  tools/report_charts.js draws the rest, and tools/report.html begins. */
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const head = data.head, layers = data.layers;
const SVG = 'http://www.w3.org/2000/svg';

/* ---- elements, texts of figures, colours */

function put(node, parts) {
  for (const part of parts.flat(9)) if (part !== null && part !== undefined && part !== false) node.append(part);
  return node;
}
function set(node, attributes) {
  for (const key in attributes) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), attributes[key]);
    else if (attributes[key] !== null) node.setAttribute(key, attributes[key]);
  }
  return node;
}
const el = (tag, attributes, ...parts) => put(set(document.createElement(tag), attributes), parts);
const svg = (tag, attributes, ...parts) => put(set(document.createElementNS(SVG, tag), attributes), parts);
const at = id => document.getElementById(id);
/* A name, whose lines break before its dots. */
const dotted = name => name.split('.').map((part, k) => k ? [el('wbr', {}), '.' + part] : part);

function digits(x) { return x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2); }
function seconds(x) {
  if (!(x > 0)) return x === 0 ? '0' : '';
  if (x < 1e-6) return digits(x * 1e9) + ' ns';
  return x >= 1 ? digits(x) + ' s' : x >= 1e-3 ? digits(x * 1e3) + ' ms' : digits(x * 1e6) + ' µs';
}
function bytes(x) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let k = 0;
  for (; x >= 1024 && k < units.length - 1; k++) x /= 1024;
  return (k ? digits(x) : Math.round(x)) + ' ' + units[k];
}
function percent(x) { return (100 * x).toFixed(x < 0.1 ? 1 : 0) + ' %'; }
function number(n) { return n.toLocaleString('en'); }
function count(n, one, many) { return number(n) + ' ' + (n === 1 ? one : many || one + 's'); }
function words(text) { /* a line does not break after the hyphens of an option */
  return text.split(' ').flatMap((word, k) => [k ? ' ' : '', el('span', { class: 'word' }, word)]);
}

const classColor = {
  'compute': 0, 'memory-bound': 4, 'collectives': 5, 'transfers': 3, 'weights': 0, 'weights gathered': 7,
    'gradients': 1,
  'optimizer': 6, 'state': 6, 'saved': 4, 'transient': 2, 'activations': 2, 'communication': 3
};
const axisColor = { tp: 0, dp: 1, cp: 2, ep: 3, pp: 4, mb: 7 };
const color = k => 'var(--c' + k + ')';
const colorOf = name => name === 'idle' ? 'var(--hatch)' : color(name in classColor ? classColor[name] : 7);
function colorOfAxis(a) { /* a second axis of a degree has a darker shade */
  const degree = k => layers.axes[k].name.replace(/[.0-9].*$/, ''), name = degree(a);
  const own = color(name in axisColor ? axisColor[name] : a % 7);
  const before = layers.axes.slice(0, a).filter((_, k) => degree(k) === name).length;
  return before ? 'color-mix(in srgb, ' + own + ' ' + Math.max(30, 75 - 20 * before) + '%, var(--ink))' : own;
}
const resolved = {};
function css(k) { /* for canvases, which know no variables */
  if (!(k in resolved)) resolved[k] = getComputedStyle(document.documentElement).getPropertyValue(k).trim();
  return resolved[k];
}
function key(name, background, idle) {
  return el('span', {}, el('i', { class: 'key' + (idle ? ' idle' : ''), style: idle ? null : 'background:' +
    background }),
    name);
}
function copyButton(text) {
  const button = el('button', { type: 'button', onclick: copy }, 'copy');
  function copy() {
    const done = () => { button.textContent = 'copied'; setTimeout(() => { button.textContent = 'copy'; }, 1200); };
    if (navigator.clipboard && window.isSecureContext) navigator.clipboard.writeText(text).then(done, select);
    else select();
    function select() { /* pages of files may have no clipboard */
      const area = el('textarea', { style: 'position:fixed;opacity:0' }, text);
      document.body.append(area);
      area.select();
      if (document.execCommand('copy')) done();
      area.remove();
    }
  }
  return button;
}
/* A bar of [name, value] parts, up to `all`. */
function bar(parts, all, small, mark) {
  return el('div', { class: small ? 'bar small' : 'bar' },
    parts.filter(p => p[1] > 0).map(p => el('i', {
      class: p[0] === 'idle' ? 'idle' : null, title: p[0],
      style: 'width:' + 100 * p[1] / all + '%' + (p[0] === 'idle' ? '' : ';background:' + colorOf(p[0]))
    })), mark ? el('span', { class: 'mark', style: 'left:calc(' + 100 * mark / all + '% - 1px)' }) : null);
}
function barLegend(parts, all, show) {
  return el('div', { class: 'legend' }, parts.filter(p => p[1] > 0).map(p => el('span', {},
    key(p[0] + ' ', colorOf(p[0]), p[0] === 'idle'), el('b', {}, show(p[1])), ' ' + percent(p[1] / all))));
}

/* ---- the head */

function drawHead() {
  const chip = (name, value, one) => el('span', { class: 'chip' + (one ? ' one' : '') }, name, ' ', el('b', {}, value));
  put(at('chips'), [head.degrees.map(d => chip(d[0], d[1], d[1] === 1)),
    head.trains ? chip('ZeRO', head.zero, head.zero === 0) : null,
    chip('micro-batches', head.micro_batches, head.micro_batches === 1),
    'schedule' in head.facts && head.facts.schedule !== 'none' ? chip('schedule', head.facts.schedule) : null,
    'recomputation' in head.facts ? chip('recompute', head.facts.recomputation, head.facts.recomputation === 'none') :
      null]);
  const figure = (name, value) => el('div', { class: 'figure' }, el('div', { class: 'value' }, value),
    el('div', { class: 'name' }, name));
  const f = head.facts, rate = f.rate.split(' '), cost = f.cost ? f.cost.split(', ') : null;
  put(at('figures'), [figure(head.trains ? 'a step' : 'a batch', f.time),
    figure(rate.slice(-1)[0].replace('/s', ' a second'), rate.slice(0, -1).join(' ')),
    figure('of peak FLOP/s (MFU)', f['model FLOP utilisation']), figure('memory per rank', bytes(head.bytes)),
    cost ? figure('an hour', cost[0].replace(' an hour', '')) : null,
    cost ? figure(cost[1].replace(/^.*USD /, ''), cost[1].replace(/ a .*$/, '')) : null]);
  const top = Math.max(head.limit, head.bytes);
  put(at('bars'), [el('div', { class: 'barline' },
    el('div', { class: 'barhead' }, el('b', {}, 'Time of the busiest stage'), el('span', { class: 'soft' }, f.time)),
    bar(head.time, head.seconds), barLegend(head.time, head.seconds, seconds)),
  el('div', { class: 'barline' },
    el('div', { class: 'barhead' }, el('b', {}, 'Memory of the largest rank'),
      el('span', { class: 'soft' }, bytes(head.bytes) + ' of ' + bytes(head.limit) + ', ' +
        percent(head.bytes / head.limit))),
    bar(head.memory, top, false, head.bytes > head.limit ? head.limit : 0),
      barLegend(head.memory, head.bytes, bytes))]);
  put(at('command'), [el('div', { class: 'command' }, el('code', {}, words(head.command)), copyButton(head.command))]);
  const list = at('facts-list');
  for (const name in f) put(list, [el('dt', {}, name), el('dd', {}, f[name])]);
}

/* ---- operations: a row has its group, the number of the operation in it, and the instance */

const columns = {};
layers.columns.forEach((name, k) => { columns[name] = k; });
layers.rows = layers.rows.map(([name, k]) => [name, ...layers.facts[k]]);
for (const group of layers.groups) group.ops = group.ops.map(k => layers.rows[k]);
const get = (op, name) => op[columns[name]];
const SHOWN = 1, WEIGHT = 2, RECOMPUTED = 4;

function label(list, i) { /* list: [first, step, how many], or texts */
  return typeof list[0] === 'number' ? String(list[0] + i * list[1]) : list[i];
}
function nameOf(group, op, instance) {
  return get(op, 'name').replace(/\{\{|\}\}|\{(\d+)\}/g,
    (all, n) => n === undefined ? all[0] : label(layers.labels[group.labels[+n]], instance));
}
const starred = op => get(op, 'name').replace(/\{\{|\}\}|\{\d+\}/g, all => all.length === 2 ? all[0] : '*');
function layoutText(l) {
  const parts = l[0].map((axes, d) => axes.length ? d + ':' + axes.map(a => layers.axes[a].name).join('.') :
    '').filter(x => x);
  const partial = layers.axes.filter((_, a) => l[1] >> a & 1).map(x => x.name);
  if (partial.length) parts.push('sum:' + partial.join('.'));
  return '{' + parts.join(', ') + '}';
}
const times = phase => phase === 'pre' || phase === 'step' ? 1 : head.micro_batches; /* in a step */
const phaseOf = op => layers.phases[get(op, 'phase')];
const phaseWord = { pre: 'once before', fwd: 'forward', bwd: 'backward', wgt: 'gradients of weights', step: 'update' };

/* ---- layers */

let hatches = 0;
function hatch(stroke, turned) {
  const id = 'h' + hatches++, width = 6;
  return [id, svg('pattern', { id, width, height: width, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(' +
    (turned ? -45 : 45) + ')' },
    svg('line', { x1: 0, y1: 0, x2: 0, y2: width, stroke, 'stroke-width': 1.6 }))];
}
/* A rectangle for a tensor: the last of its cut dimensions to the right, the others downwards. */
function glyph(l) {
  const w = 72, h = 34, most = 8, space = a => !layers.axes[a].time && layers.axes[a].size > 1;
  const cut = l[0].map((axes, d) => [axes.filter(space), d]).filter(x => x[0].length), last = cut[cut.length - 1];
  const right = last && (last[1] === l[0].length - 1 || cut.length > 1);
  const across = right ? last[0] : [], down = cut.slice(0, right ? -1 : undefined).flatMap(x => x[0]);
  const parts = axes => Math.min(most, axes.reduce((n, a) => n * layers.axes[a].size, 1));
  const nx = parts(across), ny = parts(down), used = new Set([...across, ...down]);
  const copies = layers.axes.map((_, a) => a).filter(a => space(a) && !used.has(a) && !(l[1] >> a & 1));
  const box = svg('svg', { viewBox: '0 0 ' + w + ' ' + h, width: w, height: h, role: 'img' });
  const rect = (width, height, fill, opacity) => box.append(svg('rect',
    { x: .5, y: .5, width, height, fill, opacity: opacity || 1 }));
  rect(w - 1, h - 1, 'var(--faint)');
  const main = across.length ? across[0] : down[0], mx = across.length ? nx : 1, my = across.length ? 1 : ny;
  const part = (i, k, columns, rows, opacity) => box.append(svg('rect', { x: .5 + i * (w - 1) / columns,
    y: .5 + k * (h - 1) / rows, width: (w - 1) / columns, height: (h - 1) / rows, fill: colorOfAxis(main), opacity }));
  if (main !== undefined) {
    for (let i = 0; i < mx; i++) for (let k = 0; k < my; k++) part(i, k, mx, my, (i + k) % 2 ? .2 : .38);
    part(0, 0, nx, ny, 1);
  }
  for (let k = 1; k < ny && across.length; k++)
    box.append(svg('line', { x1: 0, x2: w, y1: k * h / ny, y2: k * h / ny, stroke: colorOfAxis(down[0]),
      'stroke-width': 1.3 }));
  copies.forEach((a, k) => {
    const [id, pattern] = hatch(colorOfAxis(a), k);
    box.append(svg('defs', {}, pattern));
    rect(w - 1, h - 1, 'url(#' + id + ')', used.size ? .55 : .9);
  });
  box.append(svg('rect', { x: .5, y: .5, width: w - 1, height: h - 1, rx: 2, fill: 'none', stroke: 'var(--line)' }));
  layers.axes.forEach((x, a) => {
    if (l[1] >> a & 1)
      box.append(svg('rect', { x: w - 18, y: 3, width: 15, height: 16, rx: 3, fill: 'var(--card)' }),
        svg('text', { x: w - 15.5, y: 15.5, style: 'font-size:13px;font-weight:700;fill:' + colorOfAxis(a) }, 'Σ'));
  });
  box.append(svg('title', {}, layoutText(l)));
  return box;
}
function commText(c) {
  const axes = layers.axes.filter((_, a) => c[1] >> a & 1).map(x => x.name + ' ' + x.size).join(' x ');
  const link = layers.links[c[4]];
  return layers.comms[c[0]].replace('_', '-') + (axes ? ' over ' + axes : '') +
    (c[2] ? ', ' + bytes(c[2]) : '') + (link && axes ? ', ' + link.name : '');
}
/* Equal communication of a value in several phases: [comm, how often, phases]. */
function mergedComms(op) {
  const known = new Map();
  for (const c of get(op, 'comms') || []) {
    const same = String(c.slice(0, 5)), entry = known.get(same) || [c, 0, new Set()];
    entry[1]++;
    entry[2].add(c[5]);
    known.set(same, entry);
  }
  return [...known.values()];
}
function valueRows(group, op) {
  const l = layers.layouts[get(op, 'layout')], again = get(op, 'again'), t = get(op, 'seconds');
  let name = group.count > 1 ? starred(op) : nameOf(group, op, 0);
  const begin = group.begin;
  if (begin && name.startsWith(begin)) name = name.slice(begin.length);
  const tags = [get(op, 'flags') & RECOMPUTED ? el('span', { class: 'tag', title: 'computed again for gradients' },
    'recomputed') : null];
  const row = el('div', { class: 'value-row' }, glyph(l),
    el('span', { class: 'name' }, dotted(name || group.title), ' ', el('span', { class: 'tag' }, get(op, 'kind')), ' ', tags),
    el('span', { class: 'type mono' }, layers.types[get(op, 'type')]),
      el('span', { class: 'layout mono soft' }, layoutText(l)),
    el('span', { class: 'num bytes', title: 'bytes on a rank' }, bytes(get(op, 'memory'))),
    el('span', { class: 'num time', title: again ? seconds(again) + ' to compute it again' : 'one run' },
      t ? seconds(t) : get(op, 'flags') & WEIGHT ? '' : '–'));
  const comms = mergedComms(op).map(([c, n, phases]) => el('div', { class: 'comm', style: 'border-color:' +
    (c[1] ? colorOfAxis(31 - Math.clz32(c[1])) : 'var(--line)') }, '↓ ' + commText(c) + ', ',
      el('b', {}, seconds(c[3])),
  n > 1 ? ' ×' + n : '', head.trains ? el('span', { class: 'soft' }, ' ' +
    [...phases].map(k => phaseWord[layers.phases[k]]).join(', ')) : null));
  return [row, comms];
}
function opSeconds(op) { /* in a step, on a rank, with the communication of its result */
  let sum = times(phaseOf(op)) * (get(op, 'seconds') + get(op, 'again'));
  for (const c of get(op, 'comms') || []) sum += times(layers.phases[c[5]]) * c[3];
  return sum;
}
const groupSeconds = group => group.ops.reduce((sum, op) => sum + opSeconds(op), 0); /* of one instance */
function stagesText(stages) {
  const low = Math.min(...stages), high = Math.max(...stages);
  return head.stages === 1 ? '' : low === high ? 'stage ' + low : 'stages ' + low + '–' + high;
}
function commonBegin(group) {
  const m = /^(.*?\{\d+\})/.exec(get(group.ops[0], 'name'));
  return group.count > 1 && m ? m[1].replace(/\{\d+\}/g, '*') + '.' : group.outside ? '' : group.title + '.';
}
function fillGroup(group, where) {
  const own = groupSeconds(group), largest = Math.max(...group.ops.map(op => get(op, 'memory')));
  const matters = op => get(op, 'memory') > largest / 500 || opSeconds(op) > own / 100;
  const shown = group.ops.filter(op => get(op, 'flags') & SHOWN && matters(op)), rest = group.ops.length - shown.length;
  put(where, [shown.map(op => valueRows(group, op))]);
  if (rest) {
    const more = el('button', { type: 'button', class: 'more', onclick: () => {
      where.textContent = '';
      put(where, [group.ops.map(op => valueRows(group, op))]);
    } }, 'show ' + count(rest, 'more value'));
    where.append(more);
  }
}
function drawLayers() {
  const spatial = layers.axes.map((x, a) => [x, a]);
  put(at('axes'), [spatial.map(([x, a]) => key(x.name + ' ' + x.size + (x.time ? ' (micro-batches, in time)' : ''),
    colorOfAxis(a))),
    head.stages > 1 ? el('span', {}, count(head.stages, 'pipeline stage')) : null]);
  const all = layers.groups.reduce((n, g) => n + g.count * groupSeconds(g), 0);
  const phaseName = g => { /* phases that take a share of the group's time; all if none takes any */
    const spent = new Map(), own = groupSeconds(g);
    for (const op of g.ops) spent.set(phaseOf(op), (spent.get(phaseOf(op)) || 0) + opSeconds(op));
    return layers.phases.filter(x => spent.has(x) && (!own || spent.get(x) > own / 20)).map(x => phaseWord[x]).join(', ');
  };
  const sums = layers.groups.map(g => g.count * groupSeconds(g)), first = sums.indexOf(Math.max(...sums));
  layers.groups.forEach((group, i) => {
    group.begin = commonBegin(group);
    const own = groupSeconds(group), values = el('div', { class: 'values' });
    const title = group.outside && group.ops.length > 1 ?
      group.title + ' and ' + (group.ops.length - 1) + ' more' : group.title;
    const d = el('details', { class: 'group', id: 'group-' + i },
      el('summary', {}, el('span', { class: 'title' }, dotted(title), ' ',
        group.count > 1 ? el('span', { class: 'times' }, '×' + group.count) : null),
        el('span', { class: 'soft' }, [head.trains ? phaseName(group) : '',
          stagesText(group.stages)].filter(x => x).join(', ')),
        el('span', { class: 'sum' }, own ? seconds(own * group.count) + (group.count > 1 ? ' = ' + group.count + ' × ' +
          seconds(own) : '') + (all ? ', ' + percent(own * group.count / all) : '') : '')), values);
    d.addEventListener('toggle', () => { if (d.open && !values.childNodes.length) fillGroup(group, values); });
    if (i === first) d.open = true;
    at('groups').append(d);
  });
}

/* ---- limits */

function listHead(...names) {
  return el('div', { class: 'limit head' }, names.map((name, k) => el('span', { class: k === 1 || k === 2 ? 'num' :
    k === 3 ? 'reach' : '' }, name)));
}
function drawLimits() {
  const known = new Map();
  let sum = 0;
  function add(name, kind, own, n, one, reach, of, k) { /* layers that differ elsewhere are one line */
    const same = name + kind, x = known.get(same) || { name, kind, own: 0, n: 0, one, reach, of, k };
    sum += own, x.own += own, x.n += n;
    known.set(same, x);
  }
  for (const group of layers.groups)
    for (const op of group.ops) {
      const n = group.count, name = foldedName(group, op), t = get(op, 'seconds'), again = get(op, 'again');
      const a = get(op, 'arithmetic') || 0, b = get(op, 'traffic') || 0;
      if (t + again > 0)
        add(name, get(op, 'kind'), (t + again) * times(phaseOf(op)) * n, n, t, t > 0 ? Math.max(a, b) / t : 0,
          a >= b ? 'peak FLOP/s' : 'memory bandwidth', a >= b ? 0 : 4);
      for (const c of get(op, 'comms') || []) {
        const link = layers.links[c[4]], spent = c[3] * times(layers.phases[c[5]]) * n;
        add(name, commText(c), spent, n, c[3], link && link.bandwidth ? c[2] / link.bandwidth / c[3] : 0,
          (link ? link.name : 'link') + ' bandwidth', 5);
      }
    }
  const all = [...known.values()].sort((x, y) => y.own - x.own);
  if (!all.length) at('limits').hidden = true;
  at('limits-list').append(listHead('operation', 'one run', 'share', 'reached'));
  for (const x of all.slice(0, 10))
    at('limits-list').append(el('div', { class: 'limit' },
      el('span', {}, el('b', {}, dotted(x.name)), ' ', el('span', { class: 'soft' }, x.kind + (x.n > 1 ? ', ×' + x.n : ''))),
      el('span', { class: 'num', title: 'one run' }, seconds(x.one)),
        el('span', { class: 'num' }, percent(x.own / sum)),
      el('span', { class: 'reach' }, el('div', { class: 'bar small' },
        el('i', { style: 'width:' + Math.min(100, 100 * x.reach) + '%;background:' + color(x.k) })),
        el('span', { class: 'soft', style: 'font-size:12px' }, x.reach > 1 ? 'at ' + x.of +
          ', or above: parts are skipped' : percent(x.reach) + ' of ' + x.of))));
}
function drawHardware() {
  at('hardware').append(listHead('improvement', 'time', 'change', 'option'));
  for (const x of data.hardware)
    at('hardware').append(el('div', { class: 'limit' }, el('b', {}, x.text),
      el('span', { class: 'num' }, seconds(x.seconds)),
      el('span', { class: 'num' }, (x.saves > 0 ? '−' : '') + percent(Math.max(0, x.saves))),
      el('span', { class: 'reach soft mono' }, '--what-if ' + x.what)));
}
function drawBatch() {
  const x = data.batch;
  if (!x) return;
  at('batch').hidden = false;
  at('batch-line').append(el('div', { class: 'limit wide' }, el('b', {}, x.text), el('span', {}, x.why),
    el('span', { class: x.memory && !x.fits ? 'bad' : '' }, x.memory || '')));
}
let layerNames = null; /* of operations in groups, with stars */
function foldedName(group, op) {
  if (group.count > 1) return starred(op);
  if (!layerNames) layerNames = new Set(layers.groups.filter(g => g.count > 1).flatMap(g => g.ops.map(starred)));
  const name = nameOf(group, op, 0), star = name.replace(/\b\d+\b/, '*');
  return layerNames.has(star) ? star : name;
}

/* ---- all operations */

function drawOperations() {
  const all = [];
  for (const group of layers.groups)
    for (let i = 0; i < group.count; i++) for (const op of group.ops) all.push([group, op, i]);
  const high = 26, box = at('rows'), inside = at('rows-all'), made = new Map();
  let found = all, chosen = null;
  const stageOf = r => r[0].stages[r[2]] + get(r[1], 'stage');
  const matches = words => r => words.every(word => {
    const stage = /^stage:(\d+)$/.exec(word);
    if (stage) return stageOf(r) === +stage[1];
    return (nameOf(r[0], r[1], r[2]) + ' ' + get(r[1], 'kind') + ' ' +
      layoutText(layers.layouts[get(r[1], 'layout')])).toLowerCase().includes(word);
  });
  const cellClass = k => (k && k < 6 ? 'wide' : '') + (k >= 5 ? ' num' : '') + (k > 1 && k < 5 ? ' mono' : '');
  ['name', 'kind', 'type', 'layout', 'strategy', 'stage', 'one run'].forEach((text, k) =>
    at('rows-head').append(el('span', { class: cellClass(k).replace('mono', '') }, text)));
  function rowOf(r, i) {
    const cells = [nameOf(r[0], r[1], r[2]), get(r[1], 'kind'), layers.types[get(r[1], 'type')],
      layoutText(layers.layouts[get(r[1], 'layout')]),
      layers.strategies[get(r[1], 'strategy')], stageOf(r), get(r[1], 'seconds') ? seconds(get(r[1], 'seconds')) : ''];
    const node = el('div', { class: 'row' + (r === chosen ? ' on' : ''), style: 'top:' + i * high + 'px',
      onclick: () => {
      chosen = r;
      tell(r);
      fill(true);
    } });
    cells.forEach((text, k) => node.append(el('span', { class: cellClass(k), title: text }, text)));
    return node;
  }
  function tell(r) {
    const out = at('row-at'), op = r[1];
    out.textContent = '';
    put(out, [el('b', {}, nameOf(r[0], op, r[2])), ' ' + get(op, 'kind') + ', ' + phaseWord[phaseOf(op)] +
      ', stage ' + stageOf(r) + ': ',
      el('span', { class: 'mono' }, layers.types[get(op, 'type')] + ' ' +
        layoutText(layers.layouts[get(op, 'layout')])),
      ', strategy ', el('span', { class: 'mono' }, layers.strategies[get(op, 'strategy')] || '{}'), ', ' +
        bytes(get(op, 'memory')) + ' per rank' +
      (get(op, 'seconds') ? ', ' + seconds(get(op, 'seconds')) : '') +
        (get(op, 'again') ? ', computed again in ' + seconds(get(op, 'again')) : ''),
      (get(op, 'comms') || []).map(c => [el('br', {}), commText(c) + ', ' + seconds(c[3])])]);
  }
  function fill(anew) {
    const first = Math.max(0, Math.floor(box.scrollTop / high) - 8),
      last = Math.min(found.length, Math.ceil((box.scrollTop + box.clientHeight) / high) + 8);
    if (anew) { inside.textContent = ''; made.clear(); }
    for (const [i, node] of made) if (i < first || i >= last) { node.remove(); made.delete(i); }
    for (let i = first; i < last; i++)
      if (!made.has(i)) { made.set(i, rowOf(found[i], i)); inside.append(made.get(i)); }
  }
  function search() {
    const words = at('search').value.toLowerCase().split(/\s+/).filter(x => x);
    found = words.length ? all.filter(matches(words)) : all;
    inside.style.height = found.length * high + 'px';
    box.style.height = Math.min(440, found.length * high + 4) + 'px';
    at('found').textContent = found.length === all.length ? count(all.length, 'operation')
      : number(found.length) + ' of ' + number(all.length);
    box.scrollTop = 0;
    fill(true);
  }
  box.addEventListener('scroll', () => fill(false), { passive: true });
  at('search').addEventListener('input', search);
  search();
}
