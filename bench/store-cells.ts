/** Cells of a relay's store without a network: long commands, backup, audit, size on disk, and what grows with it. */
import { audit } from './audit.ts';
import { backup } from './backup.ts';
import { disk } from './disk.ts';
import { type Growth, byDedupRows, byListLength } from './growth.ts';
import { mailbox } from './mailbox.ts';
import { type Figure, grouped } from './report.ts';
import { inRounds } from './rounds.ts';
import { type Stall, stalls } from './stalls.ts';

/** What concerns 10,000 items of 50 MiB at once. */
export async function longCommands(rounds: number): Promise<Figure[]> {
  const measured: Stall[][] = [];
  for (let round = 0; round < rounds; round++) measured.push(await stalls());
  return (measured[0] ?? []).flatMap(({ name }, at): Figure[] => {
    const of = (figure: 'answeredMs' | 'heldMs') => measured.map((stalled) => stalled[at]?.[figure] ?? Number.NaN);
    return [
      { name: `${name}: answered in`, unit: 'ms', better: 'less', values: of('answeredMs') },
      { name: `${name}: loop held`, unit: 'ms', better: 'less', values: of('heldMs') },
    ];
  });
}

export async function backups(rounds: number): Promise<Figure[]> {
  const of = await inRounds(rounds, async () => {
    const { backupMbPerS, restoreMbPerS, bareMbPerS, contentMb, fileMb } = await backup();
    const ratios = { backupRatio: backupMbPerS / bareMbPerS, restoreRatio: restoreMbPerS / bareMbPerS };
    return { backupMbPerS, restoreMbPerS, contentMb, fileMb, ...ratios };
  });
  return [
    { name: 'content', unit: 'MB', better: 'less', values: of('contentMb') },
    { name: 'file', unit: 'MB', better: 'less', values: of('fileMb') },
    { name: 'backup', unit: 'MB/s', better: 'more', values: of('backupMbPerS'), goal: 150, note: 'of content' },
    { name: 'restore', unit: 'MB/s', better: 'more', values: of('restoreMbPerS'), goal: 150, note: 'of content' },
    { name: 'backup / bare copy', unit: 'ratio', better: 'more', values: of('backupRatio') },
    { name: 'restore / bare copy', unit: 'ratio', better: 'more', values: of('restoreRatio') },
  ];
}

export async function audits(rounds: number): Promise<Figure[]> {
  const of = await inRounds(rounds, async () => {
    const { events, verifyMbPerS, rebuildEventsPerS, wholeRebuildEventsPerS, walkMbPerS } = await audit();
    const ratio = verifyMbPerS / walkMbPerS;
    return { events, verifyMbPerS, rebuildEventsPerS, wholeRebuildEventsPerS, ratio };
  });
  const [events = 0] = of('events');
  const note = `${grouped(events)} events, half of the 1 KiB items waiting`;
  const rebuild = { unit: 'events/s', better: 'more' } as const;
  return [
    { name: 'verify', unit: 'MB/s', better: 'more', values: of('verifyMbPerS'), goal: 100, note },
    { name: 'rebuild: the replay', ...rebuild, values: of('rebuildEventsPerS') },
    { name: 'rebuild, with the new database', ...rebuild, values: of('wholeRebuildEventsPerS'), goal: 100_000 },
    { name: 'verify / bare walk', unit: 'ratio', better: 'more', values: of('ratio') },
  ];
}

export async function onDisk(): Promise<Figure[]> {
  const { items, busyBytesPerItem, bytesPerItem, restartedBytesPerItem } = await disk();
  const note = `${grouped(items)} items of 1 KiB that were pushed and acked, and the relay idle since`;
  return [
    { name: 'an item', unit: 'bytes', better: 'less', values: [bytesPerItem], goal: 300, note },
    { name: 'an item, before the relay was idle', unit: 'bytes', better: 'less', values: [busyBytesPerItem] },
    { name: 'an item, after a restart', unit: 'bytes', better: 'less', values: [restartedBytesPerItem] },
  ];
}

export async function fullMailbox(): Promise<Figure[]> {
  return (await mailbox()).flatMap(({ what, medianMs, p99Ms }): Figure[] => [
    { name: `${what}, p50`, unit: 'ms', better: 'less', values: [medianMs] },
    { name: `${what}, p99`, unit: 'ms', better: 'less', values: [p99Ms] },
  ]);
}

export async function growth(): Promise<Figure[]> {
  return [...grown(await byListLength(), {}), ...grown(await byDedupRows(), { goal: 0.85 })];
}

/** Each state, and the rate of the last one as a part of the first one's. */
function grown(states: readonly Growth[], aim: Pick<Figure, 'goal'>): Figure[] {
  const [first, last] = [states[0], states.at(-1)];
  const rates = states.map(({ what, pushUs }): Figure => {
    return { name: `a push, ${what}`, unit: 'us', better: 'less', values: [pushUs] };
  });
  if (!first || !last) return rates;
  const name = `rate with ${last.what} / with ${first.what}`;
  return [...rates, { name, unit: 'ratio', better: 'more', values: [first.pushUs / last.pushUs], ...aim }];
}
