/**
 * `npm run docs:figures`: writes the tables and plots of `docs/figures.md`, and the three lines of the README, from
 * `bench/summary.json`. With files of runs, their figures go into the summary first:
 *
 *   npm run docs:figures -- push.json peers.json
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { figuresPage, figuresReadme, goalsPlot, peersPlot } from '../bench/figures-page.ts';
import { SUMMARY_PATH, readRun, readSummary, summaryOf } from '../bench/report.ts';

const DOCS = new URL('../docs/', import.meta.url);
const PAGE = new URL('figures.md', DOCS);
const README = new URL('../README.md', import.meta.url);

const runs = process.argv.slice(2).map(readRun);
const earlier = readSummary();
if (!earlier && runs.length === 0) throw new Error('there is no summary yet: name files of runs');
const summary = runs.length > 0 || !earlier ? summaryOf(runs, earlier) : earlier;
writeFileSync(SUMMARY_PATH, `${JSON.stringify(summary, null, 2)}\n`);
writeFileSync(PAGE, figuresPage(readFileSync(PAGE, 'utf8'), summary));
writeFileSync(README, figuresReadme(readFileSync(README, 'utf8'), summary));
writeFileSync(new URL('peers.svg', DOCS), peersPlot(summary));
writeFileSync(new URL('goals.svg', DOCS), goalsPlot(summary));
console.log(`${summary.figures.length} figures, of ${runs.length} runs`);
