/** Formats numbers, sizes and times. */

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });
const MONTHS = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric' });
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function count(value: number): string {
  return whole.format(value);
}

/** `1 item`, `2 items`; `many` where that is no `s`. */
export function countText(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function rate(value: number): string {
  return value >= 100 ? whole.format(value) : short.format(value);
}

export function bytes(value: number): string {
  if (!Number.isFinite(value)) return 'unknown';
  let size = Math.max(0, value);
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${unit === 0 ? whole.format(size) : short.format(size)} ${UNITS[unit]}`;
}

/** `null`: unknown. */
export function duration(ms: number | null): string {
  if (ms === null) return 'unknown';
  if (ms < 1000) return `${short.format(ms)} ms`;
  const steps: [number, string][] = [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'min'],
    [1000, 's'],
  ];
  for (const [size, unit] of steps) if (ms >= size) return `${short.format(Math.floor((ms / size) * 10) / 10)} ${unit}`;
  return '0 s';
}

/** Date and time in the reader's time zone, to the second. */
export function time(atMs: number): string {
  const date = new Date(atMs);
  if (Number.isNaN(date.getTime())) return 'never';
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** The time of day today, else the day: as short as a list needs it. */
export function shortTime(atMs: number, nowMs: number): string {
  const text = time(atMs);
  if (text === 'never') return text;
  const today = time(nowMs).slice(0, 10);
  if (text.startsWith(today)) return text.slice(11, 16);
  return text.slice(0, 4) === today.slice(0, 4) ? MONTHS.format(atMs) : text.slice(0, 10);
}

export function ago(atMs: number, nowMs: number): string {
  return `${duration(Math.max(0, nowMs - atMs))} ago`;
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}
