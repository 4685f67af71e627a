/**
 * The screen that the output of a command is shown on: how wide its lines are, whether it has colours, and the time
 * there.
 *
 * On a terminal a person reads: times are local or relative, ids short, and lines as wide as the terminal. In a pipe or
 * a file a program may read: nothing is cut, and times are ISO 8601.
 */
import { styleText } from 'node:util';
import { DAY_MS } from '../../protocol/limits.ts';
import { isoTime, timeMsOf } from '../../protocol/time.ts';
import type { CommandContext, OutputStream } from './context.ts';

export interface Screen {
  /** The width of the terminal; undefined where the output is none. */
  columns: number | undefined;
  hasColor: boolean;
  nowMs: number;
  /** An IANA name; undefined: the zone of the process. */
  timeZone: string | undefined;
}

/** The width of a terminal that does not say it. */
const COLUMNS_DEFAULT = 80;

/** The screen that a command writes its data to, unless another stream is named. */
export function screenOf(
  { stdout, env, nowMs }: Pick<CommandContext, 'stdout' | 'env' | 'nowMs'>,
  stream: OutputStream = stdout,
): Screen {
  return {
    columns: stream.isTTY ? stream.columns || COLUMNS_DEFAULT : undefined,
    hasColor: hasColor(env, stream),
    nowMs: nowMs(),
    timeZone: timeZoneOf(env),
  };
}

/** Decides as Node.js does: FORCE_COLOR, then NO_COLOR (no-color.org), then whether the stream is a terminal. */
function hasColor({ FORCE_COLOR, NO_COLOR, TERM }: CommandContext['env'], { isTTY }: OutputStream): boolean {
  if (FORCE_COLOR !== undefined && FORCE_COLOR !== '') return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  if (NO_COLOR !== undefined && NO_COLOR !== '') return false;
  return isTTY === true && TERM !== 'dumb';
}

/** The zone that TZ names, if it is one. */
function timeZoneOf({ TZ }: CommandContext['env']): string | undefined {
  if (TZ === undefined || TZ === '') return undefined;
  try {
    return new Intl.DateTimeFormat('sv-SE', { timeZone: TZ }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** The text in a style, where the screen has colours. */
export function applyStyle({ hasColor: isColored }: Screen, style: Style | undefined, text: string): string {
  return style === undefined || text === '' || !isColored ? text : styleText(style, text, { validateStream: false });
}

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
/** Nearer than this a time is now: clocks of two machines differ. */
const NOW_MS = 2 * SECOND_MS;

/** A time in milliseconds, or in ISO 8601 as answers about mail have it. */
export type Moment = number | string;

/** Writes for people `3 min ago`, and from a day on `2025-11-20 21:48`, local; elsewhere ISO 8601 in UTC. */
export function formatTime(screen: Screen, moment: Moment): string {
  const agoMs = screen.nowMs - (typeof moment === 'string' ? timeMsOf(moment) : moment);
  const awayMs = Math.abs(agoMs);
  if (screen.columns === undefined || !(awayMs < DAY_MS)) return formatMoment(screen, moment);
  if (awayMs < NOW_MS) return 'now';
  return agoMs > 0 ? `${spanOf(awayMs)} ago` : `in ${spanOf(awayMs)}`;
}

/** Writes what `formatTime` does, but never relative: for a line that stays, and behind a preposition. */
export function formatMoment(screen: Screen, moment: Moment): string {
  const timeMs = typeof moment === 'string' ? timeMsOf(moment) : moment;
  if (Number.isNaN(new Date(timeMs).getTime())) return 'never';
  return screen.columns === undefined ? isoMoment(moment) : localTime(screen, timeMs);
}

/** Writes a time to the second: local on a terminal, elsewhere ISO 8601. */
export function formatSecond(screen: Screen, moment: string): string {
  return screen.columns === undefined ? moment : localTime(screen, timeMsOf(moment), 'medium');
}

/** A time of mail stays to the second. */
function isoMoment(moment: Moment): string {
  return typeof moment === 'string' ? moment : isoTime(moment);
}

function spanOf(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.floor(ms / SECOND_MS)} s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`;
  return `${Math.floor(ms / HOUR_MS)} h`;
}

function localTime({ timeZone }: Screen, timeMs: number, timeStyle: 'short' | 'medium' = 'short'): string {
  const shown = { timeZone, dateStyle: 'short', timeStyle } as const;
  return new Intl.DateTimeFormat('sv-SE', shown).format(timeMs);
}
