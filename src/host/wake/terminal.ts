/**
 * Wakes a session by typing into its terminal, a pane of tmux: the text, a pause, Enter. Every wake by keys goes
 * through the checks of this file.
 *
 * Keys do what the terminal shows: they finish what its user began to type, run it as a command, choose from a menu. So
 * nothing is typed unless the pane shows the session's own program, alive and in the foreground, at an empty input
 * line; and Enter comes only while that line holds our text and nothing else. When it cannot be sure, it does not type.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import type { ProcessMark, SessionRow, WakeMethod } from '../core/session-rows.ts';
import { type FactsOf, runBounded } from './processes.ts';
import { TMUX_MS, type TryWake, type TryWakeOutcome } from './wake-methods.ts';

/** A program that reads pasted text as a whole takes an Enter that comes with it as part of the text. */
const ENTER_PAUSE_MS = 200;
const SHOWN_MS = 2000;
/** The pane is looked at this often meanwhile. */
const LOOK_MS = 100;
/** The pane's first process may be so far above a program. */
const ANCESTORS_MAX = 32;
/** Rows that one input line may take in a narrow pane. */
const WRAPPED_ROWS_MAX = 16;

/** The screen of a pane: its rows without trailing spaces, and where the program put the cursor. */
interface Screen {
  rows: readonly string[];
  x: number;
  y: number;
}

interface InputLine {
  /** The prompt before the text, without spaces and frames. */
  prompt: RegExp;
  /** Says whether the row of the cursor is an empty input line. */
  isEmpty: (screen: Screen) => boolean;
}

/** The known input lines. The cursor tells a placeholder from the same words typed, or in a transcript. */
const INPUT_LINES: Readonly<Record<NonNullable<Extract<WakeMethod, { type: 'tmux' }>['input']>, InputLine>> = {
  gemini: {
    // `*` when it asks for no approval, `!` when the line is a shell command.
    prompt: /^[>*]$/,
    isEmpty: ({ rows, x, y }) => x === 3 && /^ [>*] {3}Type your message or @path\/to\/file$/.test(rows[y] ?? ''),
  },
  qwen: {
    prompt: /^[>*]$/,
    isEmpty: ({ rows, x, y }) => x === 2 && /^[>*] {3}Type your message or @path\/to\/file$/.test(rows[y] ?? ''),
  },
  unknown: {
    // Nothing, or signs of a prompt at the end and nowhere else: no question, no menu, and no line half typed behind
    // one.
    prompt: /^(?:[^>❯›»→➜$#%λ]*[>❯›»→➜$#%λ]+)?$/u,
    isEmpty: ({ rows, x, y }) => {
      const row = rows[y] ?? '';
      const isInMenu = row === '' && FRAME_END.test(rows.slice(0, y).findLast((row) => row !== '') ?? '');
      const isRestEmpty = squeezeSpaces(row.slice(x)) === '';
      return !isInMenu && isRestEmpty && INPUT_LINES.unknown.prompt.test(squeezeSpaces(row.slice(0, x)));
    },
  },
};
const FRAME_END = /^\s*[╰└┗╚]/;

/** Takes out spaces and frames; Qwen Code ends what is typed with a space of no width. */
function squeezeSpaces(text: string): string {
  return text.replaceAll(/[\s\u200B\u2500-\u257F]/gu, '');
}

/** Says whether the input line holds this text and nothing else, with the cursor behind it. */
function holds({ rows, x, y }: Screen, text: string, { prompt }: InputLine): boolean {
  if (squeezeSpaces((rows[y] ?? '').slice(x)) !== '') return false;
  const wanted = squeezeSpaces(text);
  let line = '';
  for (let row = y; row >= 0 && row > y - WRAPPED_ROWS_MAX && line.length < wanted.length; row--) {
    const part = squeezeSpaces(rows[row] ?? '');
    if (part === '') return false;
    line = part + line;
  }
  return line.endsWith(wanted) && prompt.test(line.slice(0, -wanted.length));
}

interface TmuxParts {
  factsOf: FactsOf;
  /** The name or path of tmux. */
  program?: string;
  /** A program may take this long to show what was typed. */
  shownMs?: number;
  /** tmux may take this long to answer a call. */
  callMs?: number;
}

/** Wakes a session by `tmux send-keys`. */
export function tmuxMethod(parts: TmuxParts): TryWake<'tmux'> {
  const { factsOf, program = 'tmux', shownMs = SHOWN_MS, callMs = TMUX_MS } = parts;
  return async (session, { socket, pane, input }, text, signal): Promise<TryWakeOutcome> => {
    if (input === undefined) return 'unavailable';
    const at = socket === null ? [] : ['-S', socket];
    const tmux = (...args: string[]): ReturnType<typeof runBounded> =>
      runBounded(program, [...at, ...args], { timeoutMs: callMs, signal });
    const look = async (): Promise<Screen | TryWakeOutcome> => {
      const format = '#{pane_dead} #{pane_in_mode} #{pane_pid} #{cursor_x} #{cursor_y}';
      const { code, stdout } = await tmux(
        'display-message',
        '-p',
        '-t',
        pane,
        format,
        ';',
        'capture-pane',
        '-p',
        '-t',
        pane,
      );
      const [first = '', ...rows] = stdout.split('\n');
      const [isDead, isInMode, pid = 0, x = 0, y = 0] = first.split(' ').map(Number);
      if (code !== 0 || isDead !== 0 || !(await isInForeground(session, pid, factsOf, signal))) return 'unavailable';
      // Its user reads what stood there before.
      return isInMode === 0 ? { rows: rows.map((row) => row.trimEnd()), x, y } : 'occupied';
    };
    const before = await look();
    if (typeof before === 'string') return before;
    const line = INPUT_LINES[input];
    if (!line.isEmpty(before)) return 'occupied';
    if ((await tmux('send-keys', '-t', pane, '-l', '--', text)).code !== 0) return 'unheard';
    try {
      for (let waitedMs = 0; waitedMs < shownMs; waitedMs += LOOK_MS) {
        await elapsed(waitedMs === 0 ? ENTER_PAUSE_MS : LOOK_MS, undefined, { signal });
        const shown = await look();
        if (shown === 'unavailable') return 'unheard';
        if (typeof shown === 'string' || !holds(shown, text, line)) continue;
        return (await tmux('send-keys', '-t', pane, 'Enter')).code === 0 ? 'given' : 'unheard';
      }
      return 'occupied';
    } catch {
      return 'unheard';
    }
  };
}

async function isInForeground(
  { process }: SessionRow,
  panePid: number,
  factsOf: FactsOf,
  signal: AbortSignal,
): Promise<boolean> {
  if (process === null) return false;
  const facts = await factsOf(process.pid, signal);
  if (facts === 'unknown' || facts?.mark.startedAt !== process.startedAt || facts.group !== facts.foregroundGroup)
    return false;
  return descendsFrom(process, panePid, factsOf, signal);
}

async function descendsFrom(
  { pid }: ProcessMark,
  ancestor: number,
  factsOf: FactsOf,
  signal: AbortSignal,
): Promise<boolean> {
  let at = pid;
  for (let steps = 0; steps < ANCESTORS_MAX && at > 1; steps++) {
    if (at === ancestor) return true;
    const facts = await factsOf(at, signal);
    at = typeof facts === 'object' ? facts.parentPid : 0;
  }
  return false;
}
