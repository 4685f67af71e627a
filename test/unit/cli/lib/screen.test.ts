import { describe, expect, test } from 'vitest';
import { formatMoment, formatTime, screenOf, applyStyle } from '../../../../src/cli/lib/screen.ts';
import { commandContext, type CommandWorld, runHere } from '../../../support/command-run.ts';
import { PIPE, terminal } from '../../../support/screens.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

describe('formatTime', () => {
  test.each([
    [0, 'now'],
    [-1999, 'now'],
    [1999, 'now'],
    [-2 * SECOND_MS, '2 s ago'],
    [-59 * SECOND_MS, '59 s ago'],
    [-3 * MINUTE_MS, '3 min ago'],
    [9 * MINUTE_MS + 30 * SECOND_MS, 'in 9 min'],
    [-23 * HOUR_MS, '23 h ago'],
    [-24 * HOUR_MS, '2025-11-19 21:48'],
    [24 * HOUR_MS, '2025-11-21 21:48'],
  ])('%i ms from now is %s on a terminal', (awayMs, text) => {
    expect(formatTime(terminal(80), NOON_MS + awayMs)).toBe(text);
  });

  test('a date is local', () => {
    expect(formatTime(terminal(80, { timeZone: 'Asia/Tokyo' }), 0)).toBe('1970-01-01 09:00');
    expect(formatTime(terminal(80, { timeZone: 'America/New_York' }), 0)).toBe('1969-12-31 19:00');
  });

  test('is ISO 8601 where no terminal is', () => {
    expect(formatTime(PIPE, NOON_MS)).toBe('2025-11-20T21:48:23.000Z');
    // A time that an authority made up.
    expect(formatTime(PIPE, 253_402_300_800_000)).toBe('+010000-01-01T00:00:00.000Z');
    expect(formatTime(PIPE, Number.MAX_SAFE_INTEGER)).toBe('never');
    expect(formatTime(terminal(80), Number.NaN)).toBe('never');
  });
});

test('formatMoment is never relative: for lines that stay, and behind a preposition', () => {
  expect(formatMoment(terminal(80), NOON_MS)).toBe('2025-11-20 21:48');
  expect(formatMoment(PIPE, NOON_MS)).toBe('2025-11-20T21:48:23.000Z');
  expect(formatMoment(terminal(80), Number.NaN)).toBe('never');
});

/** The screen of a command in this world, at noon; NO_COLOR is empty unless it is given. */
function screenIn({ environment = {}, columns }: CommandWorld): ReturnType<typeof screenOf> {
  const world = { environment: { NO_COLOR: '', ...environment }, nowMs: () => NOON_MS };
  return screenOf(commandContext({ ...world, ...(columns !== undefined && { columns }) }));
}

describe('screenOf', () => {
  test('knows the width of a terminal, and none of a pipe', () => {
    expect(screenIn({ columns: 132 })).toMatchObject({ columns: 132, hasColor: true, nowMs: NOON_MS });
    expect(screenIn({ columns: 0 }).columns).toBe(80);
    expect(screenIn({})).toMatchObject({ columns: undefined, hasColor: false });
  });

  test.each([
    [{}, true],
    [{ NO_COLOR: '1' }, false],
    [{ TERM: 'dumb' }, false],
    [{ FORCE_COLOR: '1', NO_COLOR: '1' }, true],
    [{ FORCE_COLOR: '0' }, false],
    [{ FORCE_COLOR: 'false' }, false],
    [{ FORCE_COLOR: '' }, true],
  ])('a terminal with %j has colours: %s', (environment, has) => {
    expect(screenIn({ environment, columns: 80 }).hasColor).toBe(has);
  });

  test('a pipe has colours when they are forced', () => {
    expect(screenIn({ environment: { FORCE_COLOR: '1' } }).hasColor).toBe(true);
  });

  test('takes the zone of TZ, and that of the process where TZ names none', () => {
    expect(screenIn({ environment: { TZ: 'Asia/Tokyo' } }).timeZone).toBe('Asia/Tokyo');
    for (const TZ of ['', 'Nowhere/None', ':/etc/localtime']) {
      expect(screenIn({ environment: { TZ } }).timeZone).toBeUndefined();
    }
  });
});

test('a text has escape sequences on a screen with colours only', () => {
  expect(applyStyle(terminal(80, { hasColor: true }), 'red', 'no')).toBe('\u001b[31mno\u001b[39m');
  expect(applyStyle(terminal(80, { hasColor: true }), undefined, 'no')).toBe('no');
  expect(applyStyle(terminal(80), 'red', 'no')).toBe('no');
});

describe('--no-color', () => {
  const forced = { FORCE_COLOR: '1', POSTE_HOME: '/nowhere/poste' };

  test('is taken by every command, wherever it stands', async () => {
    const colored = await runHere(['status'], { environment: forced });
    expect(colored.stderr).toContain('\u001b[31mposte:\u001b[39m no ');
    for (const args of [
      ['--no-color', 'status'],
      ['status', '--no-color'],
    ]) {
      const plain = await runHere(args, { environment: forced });
      expect(plain).toEqual({ ...colored, stderr: colored.stderr.replace(/^\S+poste:\S+ /, 'poste: ') });
    }
  });

  test('behind -- it is an argument like any other', async () => {
    const { stderr } = await runHere(['outbox', 'cancel', '--', '--no-color'], { environment: forced });
    expect(stderr).toContain("'--no-color' is invalid for argument 'row'");
  });

  test('an error as JSON has no colour, even when that is forced', async () => {
    const { stderr } = await runHere(['status', '--json'], { environment: forced });
    expect(stderr).not.toContain('\u001b');
  });
});
