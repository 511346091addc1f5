//===- PlanReportHtml.cpp - the plan as a page to look at -----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Transforms/Plan.h"

#include "llvm/ADT/StringExtras.h"

using namespace blutrain;

/// Reads the report, which stands before it, and draws.
static constexpr llvm::StringLiteral kScript = R"JS(
'use strict';
const colours = {
  param: '#4363d8', moment1: '#7b93e8', moment2: '#a9b8f0', cache: '#469990',
  input: '#9a6324', scalar: '#bfa27a', output: '#808000', gradient: '#e6194b',
  activation: '#3cb44b', workspace: '#f58231'};
const svgNames = 'http://www.w3.org/2000/svg';
function make(parent, name, attributes, text) {
  const node = parent.namespaceURI === svgNames || name === 'svg'
      ? document.createElementNS(svgNames, name) : document.createElement(name);
  for (const key in attributes || {}) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}
function size(bytes) {
  if (bytes === null) return 'not known';
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0, value = bytes;
  while (value >= 1024 && unit + 1 < units.length) { value /= 1024; ++unit; }
  return unit ? value.toFixed(2) + ' ' + units[unit] : bytes + ' bytes';
}
function table(parent, heads, rows) {
  const made = make(parent, 'table');
  const head = make(made, 'tr');
  for (const text of heads) make(head, 'th', {}, text);
  return rows.map(row => {
    const line = make(made, 'tr');
    for (const text of row) make(line, 'td', {}, text);
    return line;
  });
}
function lives(owner) {
  return owner.entry === '' ? 'always' : owner.begin + ' to ' + owner.end;
}
const page = document.body;
make(page, 'h1', {}, 'Memory plan');
make(page, 'p', {}, 'arena ' + size(plan.peak_bytes) + ' (' + plan.peak_bytes +
     ' bytes), lower bound ' + size(plan.lower_bound) + ', state ' +
     size(plan.state_bytes) + ', copies that placement could not avoid: ' +
     plan.copies);
const legend = make(page, 'p');
for (const category in colours) {
  make(legend, 'span', {class: 'key', style: 'background:' + colours[category]});
  make(legend, 'span', {}, category + ' ');
}
for (const entry of plan.entries) {
  make(page, 'h2', {}, 'Entry ' + entry.name);
  make(page, 'p', {}, 'peak ' + size(entry.peak_bytes) + ', lower bound ' +
       size(entry.lower_bound));
  const owners = plan.owners.filter(o => o.entry === '' || o.entry === entry.name);
  const steps = plan.schedule.filter(s => s.entry === entry.name);
  let last = 1;
  for (const o of owners) last = Math.max(last, o.end);
  for (const s of steps) last = Math.max(last, s.position);
  const width = 1100, height = 520, left = 80, bottom = 30;
  const x = position => left + (width - left) * position / (last + 1);
  const y = bytes => height - bottom -
      (height - bottom - 20) * bytes / Math.max(1, entry.peak_bytes);
  const svg = make(page, 'svg', {viewBox: '0 0 ' + width + ' ' + height,
                                 class: 'plan'});
  for (const o of owners) {
    const always = o.entry === '';
    const from = x(always ? 0 : o.begin), to = x((always ? last : o.end) + 1);
    const rect = make(svg, 'rect', {x: from, y: y(o.offset + o.bytes),
        width: Math.max(0.3, to - from),
        height: Math.max(0.3, y(o.offset) - y(o.offset + o.bytes)),
        fill: colours[o.category] || '#888'});
    make(rect, 'title', {}, o.name + '\n' + o.category +
         (o.location ? '\n' + o.location : '') + '\n' + size(o.bytes) + ' (' +
         o.bytes + ' bytes) at ' + o.offset + '\npositions: ' + lives(o));
  }
  make(svg, 'line', {x1: left, x2: width, y1: y(entry.peak_bytes),
                     y2: y(entry.peak_bytes), class: 'peak'});
  make(svg, 'text', {x: left + 4, y: y(entry.peak_bytes) - 4},
       'peak ' + size(entry.peak_bytes));
  for (let i = 0; i <= 4; ++i) {
    const bytes = entry.peak_bytes * i / 4;
    make(svg, 'text', {x: left - 4, y: y(bytes) + 4, 'text-anchor': 'end'},
         size(Math.round(bytes)));
    const position = Math.round(last * i / 4);
    make(svg, 'text', {x: x(position), y: height - 12,
                       'text-anchor': i === 4 ? 'end' : 'start'}, position);
  }
  const cursor = make(svg, 'line', {y1: 20, y2: height - bottom, x1: -9, x2: -9,
                                    class: 'cursor'});
  make(page, 'h3', {}, 'Largest owners');
  const largest = owners.slice().sort(
      (a, b) => b.bytes - a.bytes || a.offset - b.offset).slice(0, 20);
  table(page, ['bytes', 'size', 'category', 'name', 'source', 'offset',
               'positions'],
        largest.map(o => [o.bytes, size(o.bytes), o.category, o.name,
                          o.location, o.offset, lives(o)]));
  const details = make(page, 'details');
  make(details, 'summary', {}, 'Schedule: ' + steps.length +
       ' kernels, products and loops in order');
  const rows = table(details, ['position', 'what', 'source'],
      steps.map(s => [s.position, '\u00a0\u00a0'.repeat(s.depth) + s.name +
                      (s.count > 1 ? ' \u00d7 ' + s.count : ''), s.location]));
  rows.forEach((row, i) => row.addEventListener('mouseenter', () => {
    const at = x(steps[i].position + 0.5);
    cursor.setAttribute('x1', at);
    cursor.setAttribute('x2', at);
  }));
}
if (plan.cost) {
  const cost = plan.cost;
  const time = seconds => (seconds * 1e6).toFixed(1) + ' \u00b5s';
  make(page, 'h2', {}, 'Between ' + cost.devices + ' devices, ZeRO stage ' +
       cost.zero);
  make(page, 'p', {}, 'Expected times are ' + cost.link.latency_us +
       ' \u00b5s a call and ' + cost.link.gb_per_s +
       ' GB a second, not measured.');
  table(page, ['entry', 'calls', 'sent', 'bytes', 'expected'],
        cost.entries.map(e => [e.name, e.calls, size(e.bytes), e.bytes,
                               time(e.seconds)]));
  make(page, 'p', {}, 'Gradients and weights of a step by the formula: ' +
       size(cost.formula_bytes) + ' (' + cost.formula_bytes + ' bytes)');
  table(page, ['in training', 'most at one time', 'bytes', 'by the formula'],
        cost.memory.map(m => [m.class, size(m.bytes), m.bytes,
                              m.formula_bytes === null
                                  ? '' : size(m.formula_bytes)]));
  const details = make(page, 'details');
  make(details, 'summary', {}, plan.collectives.length + ' collectives');
  table(details, ['entry', 'position', 'what', 'axis', 'devices', 'values',
                  'times', 'bytes each', 'expected each', 'waited for before',
                  'source'],
        plan.collectives.map(c => [c.entry, c.position, c.kind, c.axis, c.size,
                                   c.values, c.count, c.bytes, time(c.seconds),
                                   c.async ? c.waits.join(', ') : 'what follows',
                                   c.location]));
}
make(page, 'h2', {}, 'Outside the arena');
if (plan.reserves.length)
  table(page, ['what', 'size', 'note'],
        plan.reserves.map(r => [r.name, size(r.bytes), r.note]));
else
  make(page, 'p', {}, 'The plan knows of nothing.');
)JS";

static constexpr llvm::StringLiteral kStyle = R"CSS(
body { font: 14px sans-serif; margin: 2em; color: #222; background: #fff; }
table { border-collapse: collapse; font-size: 12px; }
td, th { border: 1px solid #ccc; padding: 2px 6px; text-align: left; }
tr:hover { background: #eef; }
svg.plan { width: 100%; max-width: 1400px; border: 1px solid #ccc; }
svg text { font: 11px sans-serif; }
svg rect { stroke: #fff; stroke-width: 0.2; }
svg rect:hover { stroke: #000; stroke-width: 1.5; }
.peak { stroke: #c00; stroke-dasharray: 6 3; }
.cursor { stroke: #000; }
.key { display: inline-block; width: 0.9em; height: 0.9em; margin: 0 0.3em; }
)CSS";

void blutrain::writePlanReportHtml(const PlanReport &report,
                                   llvm::raw_ostream &os) {
  std::string json;
  llvm::raw_string_ostream stream(json);
  writePlanReportJson(report, stream);
  os << "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta "
        "charset=\"utf-8\">\n<title>Memory plan</title>\n<style>"
     << kStyle << "</style>\n</head>\n<body>\n<script>\nconst plan = ";
  // What stands in strings must not end the script.
  for (char c : json) {
    if (c == '<')
      os << "\\u003c";
    else
      os << c;
  }
  os << ";\n" << kScript << "</script>\n</body>\n</html>\n";
}

void blutrain::writePlanReport(const PlanReport &report, llvm::StringRef path,
                               llvm::raw_ostream &os) {
  if (path.ends_with(".html"))
    writePlanReportHtml(report, os);
  else
    writePlanReportJson(report, os);
}
