/* tools/report_charts.js - the charts of the page of a plan: the pipeline by time, memory over time, alternatives. */

/* ---- the timeline */

const phases3 = ['forward', 'backward', 'gradients of weights'], phaseColor = ['--c0', '--c1', '--c2'];

/* The calls of each place, [start, end, phase, stage, micro-batch], written out of their patterns. */
function unfoldCalls(t) {
  return t.places.map(list => {
    const calls = [], next = {};
    let now = 0;
    for (const pattern of list)
      for (let r = 0; r < pattern[0]; r++)
        for (let k = 1; k < pattern.length; k++) {
          const waits = Array.isArray(pattern[k]), call = waits ? pattern[k][0] : pattern[k];
          if (waits) now += pattern[k][1] * t.unit;
          const phase = call % 3, stage = (call - phase) / 3, start = now;
          now += t.calls[stage][0][phase];
          next[call] = (next[call] || 0) + 1;
          calls.push([start, now, phase, stage, next[call] - 1]);
        }
    return calls;
  });
}
/* The colour of text on that colour: dark on light ones, as in dark mode. */
function readable(name) {
  const [r, g, b] = css(name).match(/[0-9a-f]{2}/gi).map(x => parseInt(x, 16));
  return .299 * r + .587 * g + .114 * b > 128 ? '#14171a' : '#fff';
}
function drawTimeline() {
  const t = data.timeline;
  if (!t || head.stages === 1 && t.micro_batches === 1 && !head.trains) { /* there is one call */
    for (const node of at('pipeline').querySelectorAll('canvas, div')) node.hidden = true;
    at('pipeline-view').style.display = at('pipeline-map').style.display = 'none';
    at('pipeline-about').textContent = t ? 'One stage and one micro-batch: all ranks run the whole model at once.' :
      'Plans for several entries have no timeline.';
    return;
  }
  const places = unfoldCalls(t), n = places.length, update = Math.max(...t.once);
  const end = Math.max(t.seconds, ...places.map(c => c.length ? c[c.length - 1][1] : 0)), whole = end + update;
  const view = at('pipeline-view'), map = at('pipeline-map');
  const high = n > 32 ? 11 : n > 12 ? 18 : n > 4 ? 26 : 34, axisHigh = 20, left = n > 1 ? 34 : 0;
  view.style.height = n * high + axisHigh + 'px';
  let from = 0, to = whole;
  const ramp = places[n - 1].length ? places[n - 1][0][0] : 0, each = places[0].length ?
    places[0][0][1] - places[0][0][0] : 0;
  const start = Math.min(whole, 2.2 * ramp + 24 * each);
  if (n > 1 && start < whole / 3) to = start;
  let hatchPattern = null;

  function row(context, calls, x0, width, y, height, a, b, k) { /* place k from time a to b */
    const scale = width / (b - a), columns = Math.ceil(width);
    let low = 0, up = calls.length;
    while (low < up) { const m = (low + up) >> 1; if (calls[m][1] < a) low = m + 1; else up = m; }
    const dense = calls.length && (calls[Math.min(low, calls.length - 1)][1] - calls[Math.min(low,
      calls.length - 1)][0]) * scale < 3;
    context.fillStyle = hatchPattern;
    context.fillRect(x0, y, Math.min(width, (end - a) * scale), height);
    if (dense) { /* shares of time in each column of pixels */
      const share = [0, 1, 2].map(() => new Float64Array(columns + 1));
      for (let i = low; i < calls.length && calls[i][0] < b; i++) {
        const [s, e, phase] = calls[i];
        for (let c = Math.max(0, Math.floor((s - a) * scale)); c <= columns && c < (e - a) * scale; c++)
          share[phase][c] += Math.min(e, a + (c + 1) / scale) - Math.max(s, a + c / scale);
      }
      for (let c = 0; c < columns; c++) {
        let top = y;
        for (let phase = 0; phase < 3; phase++) {
          const part = height * share[phase][c] * scale;
          context.fillStyle = css(phaseColor[phase]);
          context.fillRect(x0 + c, top, 1, part);
          top += part;
        }
      }
    } else {
      for (let i = low; i < calls.length && calls[i][0] < b; i++) {
        const [s, e, phase, stage, batch] = calls[i], sends = t.calls[stage][1][phase];
        const x = x0 + Math.max(0, (s - a) * scale), right = x0 + Math.min(width, (e - a) * scale);
        context.fillStyle = css(phaseColor[phase]);
        context.globalAlpha = stage >= n ? .72 : 1;
        context.fillRect(x, y, Math.max(.5, right - x - (right - x > 4 ? 1 : 0)), height);
        context.globalAlpha = 1;
        if (sends * scale >= .8 && s >= a) {
          context.fillStyle = css('--c3');
          context.fillRect(x, y, Math.min(right - x, sends * scale), height);
        }
        if (right - x > 18 && height >= 16) {
          context.fillStyle = readable(phaseColor[phase]);
          context.fillText(String(batch), x + 4, y + height / 2 + 4, right - x - 6);
        }
      }
    }
    if (t.once[k] > 0 && b > end) {
      context.fillStyle = css('--c6');
      context.fillRect(x0 + Math.max(0, (end - a) * scale), y, Math.min(width, t.once[k] * scale), height);
    }
  }
  function prepare(canvas) {
    const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    context.font = '11px system-ui, sans-serif';
    const tile = el('canvas', { width: 6, height: 6 }), pen = tile.getContext('2d');
    pen.strokeStyle = css('--hatch');
    pen.lineWidth = 1;
    for (const d of [-3, 3, 9]) { pen.beginPath(); pen.moveTo(d - 3, 9); pen.lineTo(d + 6, 0); pen.stroke(); }
    hatchPattern = context.createPattern(tile, 'repeat');
    return [context, box.width, box.height];
  }
  function axis(context, width, y) {
    const span = to - from, rough = span / Math.max(2, width / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(k => k * power).find(k => k >= rough);
    context.fillStyle = css('--soft');
    for (let x = Math.ceil(from / step) * step; x <= to; x += step) {
      const px = left + (x - from) / span * width;
      context.fillRect(px, y, 1, 4);
      const text = seconds(Math.max(0, x));
      context.fillText(text, Math.min(px + 3, left + width - context.measureText(text).width - 2), y + 14);
    }
  }
  function draw() {
    const [context, width] = prepare(view);
    if (width <= left) return; /* not shown at this moment, as while a window changes its size */
    for (let k = 0; k < n; k++) {
      if (left) {
        context.fillStyle = css('--soft');
        if (high >= 14 || k % 4 === 0) context.fillText(String(k), 6, k * high + high / 2 + 4);
      }
      row(context, places[k], left, width - left, k * high + 1, high - 2, from, to, k);
    }
    axis(context, width - left, n * high + 2);
    const [small, mapWidth, mapHeight] = prepare(map), each = mapHeight / n;
    for (let k = 0; k < n; k++) row(small, places[k], 0, mapWidth, k * each, Math.max(1, each - (n > 12 ? 0 : 1)), 0,
      whole, k);
    small.strokeStyle = css('--ink');
    small.lineWidth = 2;
    if (to - from < whole * .999)
      small.strokeRect(from / whole * mapWidth + 1, 1, Math.max(4, (to - from) / whole * mapWidth) - 2, mapHeight - 2);
  }
  function show(a, b) {
    const shortest = whole / 1e6, span = Math.min(whole, Math.max(shortest, b - a));
    from = Math.min(Math.max(0, a), whole - span);
    to = from + span;
    draw();
  }
  function zoom(by, middle) {
    const m = middle === undefined ? (from + to) / 2 : middle;
    show(m - (m - from) * by, m + (to - m) * by);
  }
  const button = (text, title, act) => el('button', { type: 'button', title, onclick: act }, text);
  put(at('pipeline-tools'), [button('+', 'zoom in', () => zoom(.5)), button('−', 'zoom out', () => zoom(2)),
    button('◂', 'earlier', () => show(from - (to - from) / 2, to - (to - from) / 2)),
    button('▸', 'later', () => show(from + (to - from) / 2, to + (to - from) / 2)),
    button('begin', 'the first micro-batches', () => show(0, start)),
    button('end', 'the last micro-batches', () => show(whole - start, whole)),
    button('whole', 'the whole step', () => show(0, whole)), el('span', { class: 'muted' },
      'drag to move, double click to zoom in')]);
  const timeAt = x => from + (x - left) / (view.getBoundingClientRect().width - left) * (to - from);
  let drag = null;
  set(view, {
    onpointerdown: e => { drag = [e.offsetX, from, to]; view.setPointerCapture(e.pointerId); },
    onpointerup: () => { drag = null; },
    onpointermove: e => {
      if (drag) {
        const by = (drag[0] - e.offsetX) / (view.getBoundingClientRect().width - left) * (drag[2] - drag[1]);
        show(drag[1] + by, drag[2] + by);
      }
      tell(e.offsetX, e.offsetY);
    },
    ondblclick: e => zoom(.4, timeAt(e.offsetX)),
    onkeydown: e => {
      const span = to - from;
      if (e.key === '+' || e.key === '=') zoom(.5);
      else if (e.key === '-') zoom(2);
      else if (e.key === 'ArrowLeft') show(from - span / 4, to - span / 4);
      else if (e.key === 'ArrowRight') show(from + span / 4, to + span / 4);
      else return;
      e.preventDefault();
    }
  });
  map.addEventListener('pointerdown', e => {
    const m = e.offsetX / map.getBoundingClientRect().width * whole, half = (to - from) / 2;
    show(m - half, m + half);
  });
  function tell(x, y) {
    const k = Math.floor(y / high), time = timeAt(x), out = at('pipeline-at');
    if (k < 0 || k >= n || x < left) return;
    const call = places[k].find(c => c[0] <= time && time < c[1]);
    out.textContent = '';
    if (!call) return void put(out, [el('b', {}, seconds(time)), time > end ? ', work done once: ' +
      seconds(t.once[k]) : ', place ' + k + ' is idle']);
    const [s, e, phase, stage, batch] = call, c = t.calls[stage];
    put(out, [el('b', {}, phases3[phase] + ' of micro-batch ' + batch), ' on stage ' + stage +
      (t.calls.length > n ? ' (place ' + k + ')' : '') +
      ', from ' + seconds(s) + ', ' + seconds(e - s), c[2][phase] ? '; collectives ' + seconds(c[2][phase]) : '',
    c[1][phase] ? '; receiving ' + bytes(c[3][phase]) + ' ' + seconds(c[1][phase]) : '']);
  }
  const idle = places.map(calls => 1 - calls.reduce((sum, c) => sum + c[1] - c[0], 0) / end);
  put(at('pipeline-about'), [n > 1 ? count(n, 'place') + (t.calls.length > n ? ' of ' + t.calls.length / n +
    ' stages each' : '') + ', ' +
    count(t.micro_batches, 'micro-batch', 'micro-batches') + (head.trains ? ', schedule ' + head.facts.schedule : '') +
    '. Ranks wait ' + percent(Math.min(...idle)) + ' to ' + percent(Math.max(...idle)) + ' of the time.' :
    'One stage: every rank runs ' + count(t.micro_batches, 'micro-batch', 'micro-batches') + ' one after the other.']);
  const kinds = new Set(t.calls.flatMap(c => [0, 1, 2].filter(p => c[0][p] > 0 && places.flat().length &&
    (p < 1 || head.trains))));
  put(at('pipeline-legend'), [[0, 1, 2].filter(p => kinds.has(p) &&
    (p < 2 || t.apart)).map(p => key(phases3[p], 'var(' + phaseColor[p] + ')')),
    t.calls.some(c => c[1].some(x => x > 0)) ? key('transfers', color(3)) : null,
    update > 0 ? key('once: update and what is prepared', color(6)) : null, key('idle', '', true)]);
  draw();
  redraws.push(draw);
}

/* ---- memory over time */

function drawMemory() {
  const m = data.memory;
  if (!m || !m.points.length) {
    at('memory').hidden = true;
    return;
  }
  const fixed = [['weights', m.weights], [m.state_is, m.state], ...m.classes].filter(x => x[1] > 0);
  const floor = fixed.reduce((sum, x) => sum + x[1], 0);
  const bands = m.classes.map((x, k) => [x[0], k]).filter(([, k]) => m.points.some(p => p[k + 1] > 0));
  at('memory-view').textContent = '';
  const w = Math.max(280, at('memory-view').clientWidth), h = w < 600 ? 240 : 300, x0 = 66, x1 = w - 4, y1 = h - 24,
    whole = m.seconds || 1;
  const peak = Math.max(...m.points.map(p => floor + bands.reduce((sum, [, k]) => sum + p[k + 1], 0)));
  const top = 1.06 * Math.max(head.limit < 4 * peak ? head.limit : 0, peak);
  const X = s => x0 + s / whole * (x1 - x0), Y = b => y1 - b / top * (y1 - 6);
  const box = svg('svg', { viewBox: '0 0 ' + w + ' ' + h, width: w, height: h, role: 'img' });
  const unit = 2 ** Math.floor(Math.log2(top / 4)), wrap = el('div', { style: 'position:relative' });
  const tag = (text, x, y) => el('span',
    { class: 'soft', style: 'position:absolute;font-size:11.5px;white-space:nowrap;left:' +
    x + 'px;top:' + y + 'px' }, text);
  for (let b = 0; b < top; b += unit) {
    box.append(svg('line', { x1: x0 - 4, x2: x1, y1: Y(b), y2: Y(b), stroke: 'var(--line)' }));
    wrap.append(tag(bytes(b), 0, Y(b) - 9));
  }
  let below = 0;
  for (const [name, b] of fixed) {
    box.append(svg('rect', { x: x0, width: x1 - x0, y: Y(below + b), height: Y(below) - Y(below + b),
      fill: colorOf(name), opacity: .92 }));
    below += b;
  }
  const line = p => bands.reduce((all, [, k]) => [...all, all[all.length - 1] + p[k + 1]], [floor]);
  const lines = m.points.map(line);
  bands.forEach(([name], k) => {
    let up = '', down = '';
    m.points.forEach((p, i) => {
      const a = X(p[0]).toFixed(1), b = X(i + 1 < m.points.length ? m.points[i + 1][0] : whole).toFixed(1);
      up += (i ? 'L' : 'M') + a + ' ' + Y(lines[i][k + 1]).toFixed(1) + 'L' + b + ' ' + Y(lines[i][k + 1]).toFixed(1);
      down = 'L' + b + ' ' + Y(lines[i][k]).toFixed(1) + 'L' + a + ' ' + Y(lines[i][k]).toFixed(1) + down;
    });
    box.append(svg('path', { d: up + down + 'Z', fill: colorOf(name), opacity: .8 }));
  });
  const limitAbove = head.limit >= top;
  if (!limitAbove) {
    box.append(svg('line', { x1: x0, x2: x1, y1: Y(head.limit), y2: Y(head.limit), stroke: 'var(--c5)',
      'stroke-width': 2, 'stroke-dasharray': '7 4' }));
    wrap.append(el('span', { style: 'position:absolute;right:12px;font-size:11.5px;color:var(--c5);top:' +
      (Y(head.limit) - 18) + 'px' },
      'limit ' + bytes(head.limit)));
  }
  let short = '';
  const begins = m.phases.map((x, k) => [x, phaseWord[layers.phases[k]]]).filter(x => x[0] !== null).sort((x,
    y) => x[0] - y[0]);
  begins.forEach(([begin, name], k) => {
    const x = X(begin), room = (k + 1 < begins.length ? X(begins[k + 1][0]) : x1) - x;
    if (begin > 0) box.append(svg('line', { x1: x, x2: x, y1: 6, y2: y1, stroke: 'var(--ink)', 'stroke-width': .8,
      'stroke-dasharray': '2 3' }));
    if (room < 8) { /* it begins with the next one */
      short += name + ', ';
      return;
    }
    if (head.trains && room > 7 * (short + name).length) wrap.append(tag(short + name, x + 3, y1 + 5));
    short = '';
  });
  const cursor = svg('line', { y1: 6, y2: y1, stroke: 'var(--ink)', 'stroke-width': 1.2, visibility: 'hidden' });
  box.append(cursor);
  wrap.append(box);
  at('memory-view').append(wrap);
  function tell(i) {
    const p = m.points[i], out = at('memory-at'), x = X(p[0]);
    set(cursor, { x1: x, x2: x, visibility: 'visible' });
    out.textContent = '';
    put(out, [el('b', {}, bytes(lines[i][bands.length])), ' at ' + seconds(p[0]) + ': ',
      bands.filter(([, k]) => p[k + 1] > 0).map(([name, k]) => name + ' ' + bytes(p[k + 1])).join(', ') ||
        'nothing beside what is held throughout',
      p[m.classes.length + 1].length ? [el('br', {}), 'largest: ',
        p[m.classes.length + 1].map(([n, b]) => m.names[n] + ' ' + bytes(b)).join(', ')] : null]);
  }
  box.addEventListener('pointermove', e => {
    const r = box.getBoundingClientRect(), time = ((e.clientX - r.left) / r.width * w - x0) / (x1 - x0) * whole;
    let i = m.points.findIndex(p => p[0] > time) - 1;
    if (i === -2) i = m.points.length - 1;
    tell(Math.max(0, i));
  });
  box.style.touchAction = 'pan-y';
  let most = 0;
  lines.forEach((l, i) => { if (l[bands.length] > lines[most][bands.length]) most = i; });
  tell(most);
  if (at('memory-about').firstChild) return;
  put(at('memory-about'), [(head.stages > 1 ? 'Stage ' + m.stage + ', while' : 'While') +
    ' one micro-batch passes through it, as the cost model counts: ' +
    bytes(m.total) + ' at most.', Math.abs(m.total - head.bytes) > .01 * head.bytes ?
      ' The program that apc makes of this plan allocates ' + bytes(head.bytes) + '.' : '',
  m.kept.length ? [' Held throughout for gradients or other micro-batches: ',
    m.kept.slice(0, 4).map(k => m.names[k[0]] + ' ' + bytes(k[1]) +
    (k[2] > 1 ? ' (' + k[2] + ' micro-batches)' : '')).join(', '), m.kept.length > 4 ? ', ...' : '.'] : null]);
  const names = new Map(fixed.map(x => [x[0], x[1]]));
  bands.forEach(([name]) => { if (!names.has(name)) names.set(name, null); });
  put(at('memory-legend'), [[...names].map(([name, b]) => key(name + (b ? ' ' + bytes(b) : ''), colorOf(name))),
    el('span', { class: 'soft' }, 'limit ' + bytes(head.limit) + (limitAbove ? ', above the chart' : ''))]);
}

/* ---- alternatives */

const choices = data.choices, possible = choices.filter(c => c.seconds !== null && c.bytes !== null);
function drawScatter() {
  const list = choices;
  at('alternatives-view').textContent = '';
  if (possible.length > 1) {
    const w = Math.max(280, at('alternatives-view').clientWidth), h = w < 600 ? 200 : 250, x0 = 70, x1 = w - 16,
      y1 = h - 30;
    const lowX = Math.min(...possible.map(c => c.seconds)) * .97,
      highX = Math.max(...possible.map(c => c.seconds)) * 1.03;
    const highY = 1.1 * Math.max(head.limit, ...possible.map(c => c.bytes));
    const X = s => x0 + (s - lowX) / (highX - lowX) * (x1 - x0), Y = b => y1 - b / highY * (y1 - 10);
    const wrap = el('div', { style: 'position:relative;overflow:hidden;height:' + h + 'px' });
    const put2 = (text, x, y, style) => wrap.append(el('span',
      { class: 'soft', style: 'position:absolute;font-size:11.5px;white-space:nowrap;left:' +
      x + 'px;top:' + y + 'px;' + (style || '') }, text));
    const box = svg('svg', { viewBox: '0 0 ' + w + ' ' + h, width: w, height: h });
    box.append(svg('line', { x1: x0, x2: x1, y1, y2: y1, stroke: 'var(--line)' }),
      svg('line', { x1: x0, x2: x0, y1: 6, y2: y1, stroke: 'var(--line)' }),
      svg('line', { x1: x0, x2: x1, y1: Y(head.limit), y2: Y(head.limit), stroke: 'var(--c5)',
        'stroke-dasharray': '7 4', 'stroke-width': 1.5 }));
    wrap.append(box);
    put2('limit ' + bytes(head.limit), x0 + 6, Y(head.limit) - 18, 'color:var(--c5)');
    put2(bytes(highY / 1.1), 0, Y(highY / 1.1) - 9), put2('0', x0 - 14, y1 - 9);
    put2(seconds(lowX), x0, y1 + 6), put2(seconds(highX), x1, y1 + 6, 'transform:translateX(-100%)');
    possible.forEach((c, i) => wrap.append(el('a', {
      class: 'point', href: '#choice-' + list.indexOf(c), title: c.text + ': ' + seconds(c.seconds) + ', ' + bytes(c.bytes),
      style: 'left:' + X(c.seconds) + 'px;top:' + Y(c.bytes) + 'px;background:' + (i ? color(7) : color(0)) })));
    at('alternatives-view').append(wrap);
  }
}
function drawChoices() {
  const list = choices, own = list[0];
  put(at('alternatives-about'), [possible.length > 1 ? 'Time against memory per rank; the chosen plan is blue. ' :
    'The search kept no other plan. --compare tp=8,pp=8 prices a plan beside this one. ', 'One device: ' +
      head.facts['one device'] + '.']);
  const keys = (parts, title) => parts ? el('div', { class: 'legend' }, el('b', {}, title),
    parts.filter(p => possible.some(c => (c.time || []).concat(c.memory || []).some(x => x[0] === p[0] && x[1] > 0)))
      .map(p => key(p[0], colorOf(p[0]), p[0] === 'idle'))) : null;
  put(at('alternatives-list'), [keys(own.time, 'first bar, time'), keys(own.memory, 'second bar, memory; a line marks the limit')]);
  const most = Math.max(...possible.map(c => c.seconds)), mostBytes = Math.max(head.limit,
    ...possible.map(c => c.bytes));
  list.forEach((c, i) => at('alternatives-list').append(el('div',
    { class: 'choice' + (i ? '' : ' chosen'), id: 'choice-' + i },
    el('div', { class: 'line' }, el('span', { class: 'text' }, c.text),
      c.seconds !== null ? el('span', {}, seconds(c.seconds) + (i ? ' (' + (c.seconds >= own.seconds ? '+' : '−') +
        percent(Math.abs(c.seconds / own.seconds - 1)) + ')' : '')) : null, c.bytes !== null ?
          el('span', {}, bytes(c.bytes) + ' per rank') : null,
      el('span', { class: 'why' }, c.why + (c.compared ? ' (from --compare)' : ''))),
    c.time ? el('div', { class: 'bars' }, bar(c.time, most, true), bar(c.memory, mostBytes, true, head.limit)) : null,
    el('div', { class: 'flags' }, el('code', {}, c.flags), copyButton(c.flags)))));
}
