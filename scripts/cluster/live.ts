/** The cluster in a terminal: its screen, redrawn in place, and its keys. */
import { styleText } from 'node:util';
import { type Happened, type Line, type Style, screenLines } from './screen.ts';
import type { ClusterWorld, Deed, Member, Move } from './world.ts';

const REDRAW_EVERY_MS = 250;
const ENTER = '\u001b[?1049h\u001b[?25l';
const LEAVE = '\u001b[?25h\u001b[?1049l';
const TO_TOP = '\u001b[H';
const CLEAR_LINE = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';
const CTRL_C = '\u0003';

const MOVE_KEYS: Readonly<Record<string, Move>> = { o: 'promote', b: 'rebuild' };
const DEED_KEYS: Readonly<Record<string, Deed>> = { k: 'kill', s: 'stop', r: 'start' };
const STYLES = { bold: 'bold', dim: 'dim', good: 'green', bad: 'red' } as const;

export interface LiveOptions {
  world: ClusterWorld;
  happened: Happened[];
  /** Aborts when the cluster is to end. */
  signal: AbortSignal;
  /** Without colour: NO_COLOR. */
  isPlain: boolean;
  end: () => void;
}

/** Shows the cluster until `signal` aborts. */
export async function showLive({ world, happened, signal, isPlain, end }: LiveOptions): Promise<void> {
  const { stdin, stdout } = process;
  let chosen = 0;
  const draw = (): void => {
    const { columns, rows } = stdout;
    const lines = screenLines(world, { chosen, happened, rows, columns });
    const text = lines.slice(0, rows).map((line) => painted(line, columns, isPlain) + CLEAR_LINE);
    stdout.write(TO_TOP + text.join('\r\n') + CLEAR_BELOW);
  };
  const tell = (error: unknown): void => {
    if (!signal.aborted) happened.push({ at: new Date(), what: (error as Error).message });
  };
  const onKey = (key: string): void => {
    if (key === 'q' || key === CTRL_C) end();
    const count = world.members.length;
    if (/^[1-9]$/.test(key) && Number(key) <= count) chosen = Number(key) - 1;
    if (key === '\u001b[A') chosen = (chosen + count - 1) % count;
    if (key === '\u001b[B') chosen = (chosen + 1) % count;
    const member = world.members[chosen];
    if (member) done(world, member, key)?.catch(tell);
    draw();
  };
  stdin.setEncoding('utf8').setRawMode(true).on('data', onKey).resume();
  stdout.write(ENTER);
  const timer = setInterval(draw, REDRAW_EVERY_MS);
  try {
    draw();
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  } finally {
    clearInterval(timer);
    stdin.off('data', onKey).setRawMode(false).pause();
    stdout.write(LEAVE);
  }
}

/** Does what a key stands for, if it stands for something. */
function done(world: ClusterWorld, member: Member, key: string): Promise<void> | undefined {
  const move = key === 'c' ? (world.isCut ? 'join' : 'cut') : MOVE_KEYS[key];
  if (move) return world.move(move);
  const deed = key === 'p' ? (member.isPaused ? 'continue' : 'pause') : DEED_KEYS[key];
  return deed && world.do(deed, member);
}

/** The line, no wider than the terminal. */
function painted(line: Line, columns: number, isPlain: boolean): string {
  let left = columns;
  return line
    .map(({ text, style }) => {
      const cut = text.slice(0, left);
      left -= cut.length;
      return isPlain ? cut : coloured(cut, style);
    })
    .join('');
}

function coloured(text: string, style: Style): string {
  return style === 'plain' || text === '' ? text : styleText(STYLES[style], text);
}
