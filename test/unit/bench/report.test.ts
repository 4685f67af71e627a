/** Tests what a run of the benchmarks says of an earlier one, and that the pages show what the summary holds. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { figuresPage, figuresReadme, goalsPlot, peersPlot } from '../../../bench/figures-page.ts';
import { paced, timed } from '../../../bench/figures.ts';
import { type Figure, type Run, isReached, joined, readSummary, slowerThan, summaryOf } from '../../../bench/report.ts';

const DOCS = join(import.meta.dirname, '../../../docs');

function run(...figures: Figure[]): Run {
  const about = { at: '2026-11-23T12:00:00.000Z', commit: 'abc', node: 'v20', machine: 'one', loadBefore: 0 };
  return { ...about, cells: [{ cell: 'push', title: '', figures }] };
}

function aim(name: string): Figure {
  return { ...ratio('more', 0.5), name, goal: 0.75 };
}

function us(name: string, value: number): Figure {
  return { name, unit: 'us', better: 'less', values: [value] };
}

function ratio(better: 'more' | 'less', ...values: number[]): Figure {
  return { name: 'push / floor', unit: 'ratio', better, values };
}

test('a figure that a round did not have was nothing in it, also of another build', () => {
  const figures = joined([[us('loop', 1)], [us('loop', 2), us('wire', 3)]], [[us('loop', 4)], [us('loop', 5)]]);
  expect(figures.map(({ name, values, beside }) => [name, values, beside])).toEqual([
    ['loop', [1, 2], [4, 5]],
    ['wire', [0, 3], [0, 0]],
  ]);
});

describe('a run compared with the summary', () => {
  const summary = summaryOf([run(ratio('more', 0.5, 0.6, 0.4))]);

  test('is slower when its median is below the worst round by more than a tenth', () => {
    expect(slowerThan(summary, run(ratio('more', 0.37)))).toEqual([]);
    expect(slowerThan(summary, run(ratio('more', 0.9, 0.35, 0.34)))).toEqual([
      'slower: push, push / floor: 0.35; on 2026-11-23 it was 0.50 (0.40 to 0.60)',
    ]);
  });

  test('is slower the other way round where less is better', () => {
    const less = summaryOf([run(ratio('less', 1.5, 1.6))]);
    expect(slowerThan(less, run(ratio('less', 1.7)))).toEqual([]);
    expect(slowerThan(less, run(ratio('less', 1.8)))).toHaveLength(1);
  });

  test('is compared by ratios alone, and by those that the summary has on the same major of Node', () => {
    const rate: Figure = { name: 'push', unit: 'items/s', better: 'more', values: [10_000] };
    const both = summaryOf([run(rate)]);
    expect(slowerThan(both, run({ ...rate, values: [1] }, ratio('more', 0.01)))).toEqual([]);
    expect(slowerThan(summary, { ...run(ratio('more', 0.01)), node: 'v24' })).toEqual([]);
  });
});

describe('the summary', () => {
  test('keeps medians, spread and date, and what a run did not measure again', () => {
    const earlier = summaryOf([
      { ...run(), cells: [{ cell: 'pages', title: '', figures: [ratio('more', 0.3)] }] },
      run({ ...ratio('more', 0.5), name: 'gone' }),
    ]);
    const { figures } = summaryOf([run({ ...ratio('more', 0.123456, 0.6, 0.4), goal: 0.75 })], earlier);
    expect(figures.map(({ cell, name }) => `${cell}: ${name}`)).toEqual(['pages: push / floor', 'push: push / floor']);
    expect(figures[1]).toEqual({
      cell: 'push',
      name: 'push / floor',
      unit: 'ratio',
      better: 'more',
      median: 0.4,
      least: 0.1235,
      most: 0.6,
      rounds: 3,
      goal: 0.75,
      at: '2026-11-23',
      commit: 'abc',
      load: 0,
      machine: 'one',
      node: 'v20',
    });
  });

  test('keeps what was measured on another major of Node beside it, in tables and not in plots', () => {
    const on24 = { ...run(aim('a')), node: 'v24.1.0' };
    const summary = summaryOf([on24], summaryOf([run(aim('a'), aim('b'))]));
    expect(summary.figures.map(({ name, node }) => `${name} ${node}`)).toEqual(['a v20', 'b v20', 'a v24.1.0']);
    expect(summaryOf([on24], summary).figures).toHaveLength(3);
    const table = figuresPage(readFileSync(join(DOCS, 'figures.md'), 'utf8'), summary);
    expect(table.match(/^\| push \| a \|.*$/gm)?.map((row) => row.includes('Node.js 24.1.0'))).toEqual([false, true]);
    expect(goalsPlot(summary).match(/<rect class="(?:reached|missed)"/g)).toHaveLength(2);
  });

  test('names the machine of a run where it is not that of most', () => {
    const cells = [{ cell: 'start', title: '', figures: [aim('c')] }];
    const summary = summaryOf([run(aim('a'), aim('b')), { ...run(), machine: 'two', node: 'v22.1.0', cells }]);
    const table = figuresPage(readFileSync(join(DOCS, 'figures.md'), 'utf8'), summary);
    expect(table).toContain('on one, Node.js 20, unless a row names another machine');
    expect(table.match(/^\| .*\| c \|.*$/m)?.[0]).toContain('load 0, on two, Node.js 22.1.0 |');
    expect(table.match(/^\| .*\| a \|.*$/m)?.[0]).toContain('load 0 |');
  });

  test('says that a goal is reached by the median', () => {
    expect(isReached({ ...ratio('more', 0.1, 0.8, 0.9), goal: 0.75 })).toBe(true);
    expect(isReached({ ...ratio('less', 0.1, 0.8, 0.9), goal: 0.75 })).toBe(false);
  });
});

describe('docs/figures.md, its plots and the README', () => {
  const summary = readSummary() ?? summaryOf([]);

  test('are what npm run docs:figures makes of bench/summary.json', () => {
    const page = readFileSync(join(DOCS, 'figures.md'), 'utf8');
    expect(figuresPage(page, summary)).toBe(page);
    const readme = readFileSync(join(DOCS, '../README.md'), 'utf8');
    expect(figuresReadme(readme, summary)).toBe(readme);
    expect(peersPlot(summary)).toBe(readFileSync(join(DOCS, 'peers.svg'), 'utf8'));
    expect(goalsPlot(summary)).toBe(readFileSync(join(DOCS, 'goals.svg'), 'utf8'));
  });

  test('have a bar for each system and each figure with a goal, and colours for dark pages', () => {
    const goals = summary.figures.filter(({ goal }) => goal !== undefined);
    const rates = summary.figures.filter(({ cell, unit }) => cell === 'peers' && unit === 'items/s');
    expect([goals.length, rates.length]).toEqual([expect.toSatisfy((count) => count > 15), 12]);
    expect(goalsPlot(summary).match(/<rect class="(?:reached|missed)"/g)).toHaveLength(goals.length);
    expect(peersPlot(summary).match(/<rect class="(?:own|other)"/g)).toHaveLength(rates.length);
    for (const plot of [peersPlot(summary), goalsPlot(summary)]) expect(plot).toContain('prefers-color-scheme: dark');
  });
});

describe('requests at a rate', () => {
  test('count their time from when they were due, also while every lane is taken', async () => {
    const open: (() => void)[] = [];
    const begun: number[] = [];
    const jobs = [1, 2, 3];
    const running = paced(jobs, { lanes: 1, perSecond: 1000 }, (job) => {
      begun.push(job);
      return new Promise((resolve) => open.push(resolve));
    });
    const held = performance.now();
    for (const job of jobs) {
      while (begun.length < job) await new Promise((resolve) => setImmediate(resolve));
      if (job === 1) while (performance.now() - held < 20) await new Promise((resolve) => setImmediate(resolve));
      open[job - 1]?.();
    }
    const { latenciesMs } = await running;
    // The third was due after 2 ms, and could begin after 20 at the earliest.
    expect(latenciesMs).toHaveLength(3);
    expect(latenciesMs[2]).toBeGreaterThanOrEqual(17);
  });

  test('end with the first failure', async () => {
    const failing = paced([1, 2], { lanes: 2, perSecond: 1000 }, () => Promise.reject(new Error('refused')));
    await expect(failing).rejects.toThrow('refused');
    await expect(timed([[1]], () => Promise.reject(new Error('refused')))).rejects.toThrow('refused');
  });
});
