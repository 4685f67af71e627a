/**
 * `npm run bench`: what the published figures come from. Names of cells run these alone, and options make them longer:
 *
 *   npm run bench -- push single --rounds 5
 *   npm run bench -- push --items 400000     with all that LevelDB compacts
 *   npm run bench -- steady --minutes 10
 *   npm run bench -- full --scale 1          1,000,000 items that wait, 5,000,000 dedup rows, 50,000 hosts
 *   npm run bench -- full --scale 1 --store folder    with a store that is made there once, and stays
 *   npm run bench -- looks --leaves 1000000
 *   npm run bench -- --json run.json --strict
 *   npm run bench -- cpu --beside folder     with the build in another checkout's dist, by turns
 *
 * Each ratio is of one run, so that it holds whatever the machine does. A run is kept as JSON, and its ratios are
 * compared with `bench/summary.json`: a line says what got slower, and with `--strict` the exit code is 1 then.
 */
import { besideBuild } from './build.ts';
import { type Depth, batchPush, pages, singlePush } from './push-pull.ts';
import { parsedArguments, unusable } from '../scripts/parsed-arguments.ts';
import { fullStore } from './full-store.ts';
import { mailEndToEnd, oneMessage } from './mail-cells.ts';
import { type Figure, type Measured, beginning, concludeRun, eachRound, newRun, printMeasured } from './report.ts';
import { looks } from './looks.ts';
import { heldPolls } from './held-polls.ts';
import { PEERS_TITLE, peers } from './peers.ts';
import { SHARED_CELLS, onPostgres } from './shared-log.ts';
import { starts } from './starts.ts';
import { steady } from './steady.ts';
import { audits } from './audit.ts';
import { backups } from './backup.ts';
import { onDisk } from './disk.ts';
import { fullMailbox } from './mailbox.ts';
import { mcpMail } from './mcp-mail.ts';
import { longCommands } from './stalls.ts';

const { values: asked, positionals } = parsedArguments({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '3' },
    items: { type: 'string', default: '48000' },
    minutes: { type: 'string', default: '1' },
    scale: { type: 'string', default: '0.02' },
    store: { type: 'string' },
    hosts: { type: 'string', default: '50000' },
    leaves: { type: 'string', default: '100000' },
    json: { type: 'string' },
    beside: { type: 'string' },
    strict: { type: 'boolean', default: false },
  },
});
const WHOLE: Depth = { isWhole: true };
const COSTS: Depth = { isWhole: false };

const CELLS: Readonly<Record<string, [title: string, run: (rounds: number) => Promise<Figure[]>]>> = {
  push: ['200 x 1 KiB a request, 4 connections', eachRound(() => batchPush(Number(asked.items), WHOLE))],
  single: ['1 KiB a request, 64 connections', eachRound(() => singlePush(WHOLE))],
  pages: ['full pages, 4 connections', eachRound(() => pages(WHOLE))],
  steady: ['push, pull and ack side by side', () => steady(Number(asked.minutes))],
  full: ['a store that is full, beside an empty one', (rounds) => fullStore(rounds, Number(asked.scale), asked.store)],
  commands: ['what concerns 10,000 items of 50 MiB at once', eachRound(longCommands)],
  backup: ['a store of mail as a file, and back', eachRound(backups)],
  audit: ['a log of pushes and acks', eachRound(audits)],
  disk: ['what stays of an item that was acked', onDisk],
  mailbox: ['a host with 100,000 messages of 1 KB in one mailbox', fullMailbox],
  mail: ['mail of 1 KB between two hosts, 50 senders, to the receipt', eachRound(() => mailEndToEnd(WHOLE))],
  'mail-mcp': ['mail_send of 1 KB through poste mcp', eachRound(mcpMail)],
  message: ['one message of 1 KB between two hosts', oneMessage],
  start: ['commands beside a Node.js that does nothing', eachRound(starts)],
};

/** These run only when they are named: they take long, or need other programs or thousands of connections. */
const ALONE: typeof CELLS = {
  'cpu-push': ['200 x 1 KiB a request, 4 connections', eachRound(() => batchPush(Number(asked.items), COSTS))],
  'cpu-single': ['1 KiB a request, 64 connections', eachRound(() => singlePush(COSTS))],
  'cpu-pages': ['full pages, 4 connections', eachRound(() => pages(COSTS))],
  'cpu-audit': ['a log of pushes and acks', eachRound(audits)],
  'cpu-mail': ['mail of 1 KB between two hosts, 50 senders, to the receipt', eachRound(() => mailEndToEnd(COSTS))],
  looks: ['what hosts ask of the log', eachRound(() => looks(Number(asked.leaves)))],
  'held-polls': ['hosts that are connected and wait for mail', heldPolls],
  peers: [PEERS_TITLE, peers],
  ...Object.fromEntries(
    Object.entries(SHARED_CELLS).map(([name, [title, run]]) => [
      name,
      [
        title,
        (rounds: number) =>
          onPostgres(run, { rounds, seconds: Number(asked.minutes) * 60, hosts: Number(asked.hosts) }),
      ],
    ]),
  ),
};

const ALL = { ...CELLS, ...ALONE };

/** The cells of that name, or those whose names go on from it. */
const named = (name: string): string[] =>
  Object.keys(ALL).filter((cell) => cell === name || cell.startsWith(`${name}-`));
const wanted = positionals.length > 0 ? positionals.flatMap(named) : Object.keys(CELLS);
const unknown = positionals.filter((name) => named(name).length === 0);
if (unknown.length > 0) unusable(`There is no cell ${unknown.join(', ')}: ${Object.keys(ALL).join(', ')}`);
const rounds = Number(asked.rounds);
const { beside } = asked;
const begun = beginning();
const cells: Measured[] = [];
for (const name of wanted) {
  const [title, run] = ALL[name] ?? ['', async () => []];
  const figures = await (beside === undefined ? run(rounds) : besideBuild(beside, rounds, run));
  const cell = { cell: name, title, figures };
  printMeasured(cell);
  cells.push(cell);
}
concludeRun(newRun(cells, begun), asked);
// A host leaves a connection behind that its relay keeps open for a while.
process.exit();
