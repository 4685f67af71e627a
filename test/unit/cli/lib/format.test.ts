import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatBytes, jsonLine } from '../../../../src/cli/lib/format.ts';
import { OPERATIONS } from '../../../../src/host/api/operations.ts';
import { isPrintable } from '../../../../src/protocol/printable.ts';
import { anyText } from '../../../support/any-text.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

test.each([
  [0, '0 bytes'],
  [1, '1 byte'],
  [999, '999 bytes'],
  [1000, '1.0 KB'],
  [12_345_678, '12.3 MB'],
  [5e15, '5000.0 TB'],
])('formatBytes of %i is %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

describe('jsonLine', () => {
  test('is one line that no terminal obeys, and the same document', () => {
    const document = { account: '\u001b]0;x\u0007\u009b31m\u202e\u{e0041}\u2028', name: 'Grüße' };
    const line = jsonLine(document);
    expect(line).toContain('\\u001b]0;x\\u0007\\u009b31m\\u202e\\udb40\\udc41\\u2028');
    expect(line).toContain('Grüße');
    expect(line.endsWith('}\n')).toBe(true);
    expect(JSON.parse(line)).toEqual(document);
  });

  test('property: any text comes back', () => {
    fc.assert(
      fc.property(anyText(), (text) => {
        const line = jsonLine({ text });
        expect(JSON.parse(line)).toEqual({ text });
        expect(isPrintable(line.slice(0, -1))).toBe(true);
      }),
    );
  });

  test('has times in ISO 8601 and durations in seconds, all the way down, and numbers as they are', () => {
    const iso = '2025-11-20T21:48:23.000Z';
    const document = { rows: [{ at: NOON_MS, next_at: null, valid_until: NOON_MS }], live_ms: 1500, seq: NOON_MS };
    expect(JSON.parse(jsonLine({ ...document, next_before: 7, limits: { retention_days: 30 } }))).toEqual({
      rows: [{ at: iso, next_at: null, valid_until: iso }],
      live_seconds: 1.5,
      seq: NOON_MS,
      next_before: 7,
      limits: { retention_days: 30 },
    });
  });

  test('leaves what is signed as it was signed', () => {
    const signed = { accept: { at: NOON_MS }, document: { tree: { time: NOON_MS } } };
    expect(JSON.parse(jsonLine(signed))).toEqual(signed);
  });
});

interface Schema {
  type?: string;
  description?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  anyOf?: Schema[];
}

/** The paths of the members that are times or durations by their description. */
function timesIn(schema: Schema, path: string): string[] {
  if (schema.type === 'integer') return /milliseconds/i.test(schema.description ?? '') ? [path] : [];
  const parts = [...Object.entries(schema.properties ?? {}), ...(schema.anyOf ?? []).map((one) => ['', one] as const)];
  const below = parts.flatMap(([name, one]) => timesIn(one, name === '' ? path : `${path}.${name}`));
  return schema.items ? [...below, ...timesIn(schema.items, path)] : below;
}

test('an answer of the daemon has no time in milliseconds, but for what is signed', () => {
  const times = Object.entries(OPERATIONS).flatMap(([name, { output }]) => timesIn(output as Schema, name));
  const unsigned = times.filter((path) => !path.includes('.accept.'));
  expect(times.length).toBeGreaterThan(unsigned.length);
  expect(unsigned).toEqual([]);
});
