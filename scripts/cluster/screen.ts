/** Writes what the cluster shows: the lines of its screen, and the lines of its summary. It knows no terminal. */
import { Database } from './database.ts';
import { STOP_MS } from './ledger.ts';
import type { ClusterWorld, Member } from './world.ts';

/** Colours that can be read on light and on dark. */
export type Style = 'plain' | 'bold' | 'dim' | 'good' | 'bad';
export type Line = readonly { text: string; style: Style }[];

export interface Happened {
  at: Date;
  what: string;
}

/** The choices and the events to show, beside the cluster itself. */
export interface Shown {
  chosen: number;
  happened: readonly Happened[];
  rows: number;
  columns: number;
}

const NAME_WIDTH = 12;
const NUMBER_WIDTH = 8;

export function screenLines(world: ClusterWorld, { chosen, happened, rows, columns }: Shown): Line[] {
  const top: Line[] = [
    [
      { text: 'A Poste cluster on loopback', style: 'bold' },
      { text: '   q ends everything', style: 'dim' },
    ],
    [{ text: `files in ${world.folder}`, style: 'dim' }],
    [],
    [
      {
        text: `    ${'process'.padEnd(NAME_WIDTH)}${'pid'.padEnd(NUMBER_WIDTH)}${'port'.padEnd(NUMBER_WIDTH)}now`,
        style: 'dim',
      },
    ],
    ...world.members.map((member, index) => memberLine(world, member, index, chosen)),
    [],
    ...accountLines(world, columns),
    [],
    ...keyLines(world.members[chosen]?.name ?? ''),
    [],
  ];
  const room = Math.max(1, rows - top.length);
  return [
    ...top,
    ...happened
      .slice(-room)
      .flatMap((one) => happenedLines(one, columns))
      .slice(-room),
  ];
}

/** As one line, for a file or a pipe. */
export function happenedLine({ at, what }: Happened): string {
  return `${timeOf(at)}  ${what}`;
}

function happenedLines({ at, what }: Happened, columns: number): Line[] {
  const time = `${timeOf(at)}  `;
  return wrapped(what, columns - time.length).map((text, index) => [
    { text: index === 0 ? time : ' '.repeat(time.length), style: 'dim' },
    { text, style: 'plain' },
  ]);
}

function timeOf(at: Date): string {
  return at.toTimeString().slice(0, 8);
}

/** The words in lines no longer than that, unless one word is. */
function wrapped(text: string, columns: number): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const last = lines.at(-1) ?? '';
    if (last === '') lines[lines.length - 1] = word;
    else if (last.length + 1 + word.length <= columns) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** Returns what the hosts were promised and got, for the end. */
export function summaryLines({ load: { ledger } }: ClusterWorld): string[] {
  const { accepted, arrived, waiting, lost, doubled, cameAgain, confirmed, epochChanges } = ledger.counts;
  const stop = ledger.lastStopMs;
  return [
    `accepted ${accepted}, arrived ${arrived}, confirmed ${confirmed}, waiting ${waiting}, ` +
      `lost ${lost}, doubled ${doubled}`,
    `repeats ignored ${cameAgain}, new epochs ${epochChanges}, ` +
      `last outage ${stop === undefined ? 'none' : seconds(stop)}`,
    ...ledger.faults.map((fault) => `wrong: ${fault}`),
  ];
}

function memberLine(world: ClusterWorld, member: Member, index: number, chosen: number): Line {
  const isChosen = index === chosen;
  const { text, style } = stateOf(world, member);
  const pid = String(member.pid ?? '-').padEnd(NUMBER_WIDTH);
  return [
    { text: `${isChosen ? '>' : ' '} ${index + 1} `, style: isChosen ? 'bold' : 'dim' },
    { text: member.name.padEnd(NAME_WIDTH), style: isChosen ? 'bold' : 'plain' },
    { text: `${pid}${String(member.port).padEnd(NUMBER_WIDTH)}`, style: 'plain' },
    { text, style },
  ];
}

function stateOf(world: ClusterWorld, member: Member): Line[number] {
  const busy = world.busyWith(member);
  if (busy !== undefined) return { text: `${busy} ...`, style: 'bold' };
  if (member.pid === undefined) return { text: 'GONE  (r starts it again)', style: 'bad' };
  if (member.isPaused) return { text: 'PAUSED  (p lets it go on)', style: 'bad' };
  if (member instanceof Database) return databaseState(world, member);
  if (member === world.proxy) {
    const { proxyTarget } = world;
    if (proxyTarget) return { text: `sends hosts to ${proxyTarget.program.name}`, style: 'plain' };
    return { text: 'sends hosts nowhere: no relay is ready', style: 'bad' };
  }
  const state = world.relays.find(({ program }) => program === member)?.state;
  if (state?.type === 'leads') return { text: 'leads', style: 'good' };
  if (state?.type === 'refuses') return { text: state.why.replace('this node of the relay ', ''), style: 'plain' };
  return { text: 'does not answer (yet)', style: 'bad' };
}

function databaseState(world: ClusterWorld, member: Database): Line[number] {
  const { state } = member;
  if (state.type === 'standby') {
    if (world.isCut) return { text: 'standby, CUT OFF  (c joins it again)', style: 'bad' };
    return state.isReceiving
      ? { text: 'standby, in step', style: 'plain' }
      : { text: 'standby, without a primary  (o promotes it)', style: 'bad' };
  }
  if (state.type !== 'primary') return { text: 'does not answer (yet)', style: 'bad' };
  const role = `primary, timeline ${state.timeline}`;
  if (world.primary !== member) return { text: `${role}, OUTDATED  (b rebuilds it)`, style: 'bad' };
  return state.isSynchronous ? { text: role, style: 'good' } : { text: `${role}, WAITS for a standby`, style: 'bad' };
}

function accountLines({ load }: ClusterWorld, columns: number): Line[] {
  const { ledger } = load;
  const { accepted, arrived, waiting, lost, doubled, cameAgain, epochChanges } = ledger.counts;
  const quietMs = ledger.quietMs(performance.now());
  const isServed = accepted > 0 && quietMs < STOP_MS;
  const stop = ledger.lastStopMs;
  const wrong = ledger.faults.at(-1);
  const refusal =
    `nothing is accepted${accepted > 0 ? `, for ${seconds(quietMs)}` : ' yet'}` +
    `: ${load.refusal || 'no answer comes'}`;
  const refused = wrapped(refusal, columns).map((text): Line => [{ text, style: 'bad' }]);
  return [
    [
      { text: `mail: accepted ${accepted}   arrived ${arrived}   waiting ${waiting}   `, style: 'plain' },
      { text: `LOST ${lost}   DOUBLED ${doubled}`, style: lost + doubled > 0 ? 'bad' : 'good' },
    ],
    [
      {
        text:
          `new epochs ${epochChanges}   repeats ignored ${cameAgain}   ` +
          `last outage ${stop === undefined ? 'none' : seconds(stop)}`,
        style: 'plain',
      },
    ],
    ...(isServed ? [[{ text: 'hosts are served', style: 'good' as const }]] : refused),
    ...(wrong === undefined ? [] : [[{ text: `WRONG: ${wrong}`, style: 'bad' as const }]]),
  ];
}

function keyLines(name: string): Line[] {
  const chosen = { text: `(${name})`, style: 'dim' as const };
  return [
    [...keys({ '1-5': 'choose', k: 'kill -9', s: 'stop', r: 'start', p: 'pause or go on' }), chosen],
    keys({ c: 'cut off or join the standby', o: 'promote it', b: 'rebuild the old primary' }),
  ];
}

function keys(words: Readonly<Record<string, string>>): Line[number][] {
  return Object.entries(words).flatMap(([key, word]) => [
    { text: key, style: 'bold' as const },
    { text: ` ${word}   `, style: 'plain' as const },
  ]);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
