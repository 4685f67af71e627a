/** Settings in JSON, some with comments: Poste's members come and go, and nobody else's byte changes. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CLAUDE_CODE } from '../../../../src/host/hooks/programs.ts';
import { SETTINGS_OF, SETTLED_PROGRAMS } from '../../../../src/host/hooks/settled-programs.ts';
import { hookCommand, withHooks, withoutHooks } from '../../../../src/host/hooks/settings.ts';
import { changedJson, settingsOf, SettingsRefused } from '../../../../src/host/hooks/settings-text.ts';

const SERVER = { command: '/n', args: ['/m/cli/main.js', 'mcp', '--agent', 'x'], env: {} };

const LAYOUTS = {
  'tabs, and a number that no program writes so': '{\n\t"theme": "dark",\n\t"n": 1.0e2\n}\n',
  'three spaces, and no last line end': '{\n   "theme": "dark"\n}',
  'members side by side': '{\n  "theme": "dark", "list": [1, 2],\n\n\n  "escaped": "\\u00e9\\/"\n}\n\n',
  'lines that end in CR and LF, alone': '{\r\n  "theme": "dark",\r\n  "mcpServers": {\r\n    "o": {}\r\n  }\r\n}\r\n',
  'one line without a space': '{"theme":"dark","permissions":{"allow":["a","b"]}}',
  'one line with spaces': '{ "b": 1, "a": [] }\n',
  nothing: '{}\n',
  'others of each list, alone':
    '{\n  "mcpServers": {"other": {"command": "o"}},\n  "mcp": {\n    "other": {}\n  },\n' +
    '  "hooks": {\n    "Stop": [ { "hooks": [{"type": "command", "command": "x"}] } ]\n  }\n}\n',

  'a comment above, beside and below': '{\n  // why\n  "theme": "dark" // at night\n  // the end\n}\n',
  'commas before brackets': '{\n\t"theme": "dark", // at night\n\t"list": [1, 2,],\n}\n',
  'lines that end in CR and LF': '{\r\n    /* why */\r\n    "theme": "dark"\r\n}\r\n',
  'one line': '{ "theme": "dark" /* at night */ }',
  'a comment alone': '// mine\n{\n  // nothing yet\n}\n',
  'others of each list':
    '{\n  "mcpServers": {\n    "other": { "command": "o" } // theirs\n  },\n' +
    '  "mcp": {\n    "other": { "command": ["o"] }, // theirs\n  },\n' +
    '  "hooks": {\n    // mine\n    "Stop": [\n      // loud\n' +
    '      { "hooks": [{ "type": "command", "command": "say done" }] }\n    ]\n  }\n}\n',
};

function comments(text: string): string[] {
  return text.match(/\/\/[^\n\r]*|\/\*.*?\*\//g) ?? [];
}

function hooked(now: string | undefined, agent: string): string {
  const command = hookCommand({ program: 'claude-code', node: '/n', main: '/m', agent });
  return changedJson(now, (settings) => withHooks(settings, CLAUDE_CODE, command)) ?? '';
}

describe.each(Object.entries(LAYOUTS))('settings with %s', (_name, text) => {
  test.each(SETTLED_PROGRAMS.filter((program) => program !== 'codex'))('the server of %s', (program) => {
    const after = SETTINGS_OF[program].addServer(SERVER)(text) ?? '';
    expect(JSON.stringify(settingsOf(after))).toContain('/m/cli/main.js');
    expect(comments(after)).toEqual(comments(text));
    expect(SETTINGS_OF[program].removeServer(SERVER)(after)).toBe(text);
  });

  test('hooks, and then those of another agent', () => {
    const after = hooked(hooked(text, 'a'), 'b');
    expect(comments(after)).toEqual(comments(text));
    expect(settingsOf(after)).toEqual(settingsOf(hooked(JSON.stringify(settingsOf(text)), 'b')));
    expect(changedJson(after, (settings) => withoutHooks(settings, CLAUDE_CODE))).toBe(text);
  });
});

function withPoste(settings: unknown): object {
  return { ...(settings as object), poste: { args: ['x', 1] } };
}

test('whatever stands in it and however it is laid out, what Poste adds is all that changes', () => {
  const settings = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }), { minKeys: 1 });
  const layout = fc.record({
    indent: fc.constantFrom(0, 1, 4, '\t'),
    end: fc.constantFrom('\n', '\r\n'),
    last: fc.boolean(),
  });
  fc.assert(
    fc.property(settings, layout, (value, { indent, end, last }) => {
      const text = JSON.stringify(value, null, indent).replaceAll('\n', end) + (last ? end : '');
      const after = changedJson(text, withPoste) ?? '';
      expect(settingsOf(after)).toEqual(withPoste(JSON.parse(text)));
      const at = text.lastIndexOf('}') - (indent === 0 ? 0 : end.length);
      expect([after.slice(0, at), after.endsWith(text.slice(at))]).toEqual([text.slice(0, at), true]);
      expect(after.split(end).join('')).not.toMatch(/[\r\n]/);
      expect(changedJson(after, () => JSON.parse(text) as object)).toBe(text);
    }),
  );
});

test('a member is added below the others, and its comment stays with each', () => {
  const after = changedJson('{\n  "a": 1, // one\n  "b": 2 // two\n}\n', (now) => ({ ...(now as object), c: [3] }));
  expect(after).toBe('{\n  "a": 1, // one\n  "b": 2, // two\n  "c": [\n    3\n  ]\n}\n');
  const without = changedJson(after?.replace('3', '3 // three'), () => ({ a: 1, b: 2 }));
  expect(without).toBe('{\n  "a": 1, // one\n  "b": 2 // two\n}\n');
});

test.each([
  ['[\n  // c\n  1, 2, 3\n]', [1, 3], '[\n  // c\n  1, 3\n]'],
  ['[\n  // c\n  1, 2, 3\n]', [1, 3, 4], '[\n  // c\n  1, 3,\n  4\n]'],
  ['[ // c\n  1,\n  2\n]', [1, 3], '[ // c\n  1,\n  3\n]'],
  ['{ // c\n  "a": { "b": 1 } }', { a: { b: 2 } }, '{ // c\n  "a": { "b": 2 } }'],
  ['{ // c\n  "a": 1 }', { a: { b: 2 } }, '{ // c\n  "a": {\n    "b": 2\n  } }'],
  ['{ // c\n  "a": 1,\n  "b": 2\n}', { b: 2 }, '{ // c\n  "b": 2\n}'],
])('%j becomes %j', (text, value, after) => {
  expect(changedJson(text, () => value)).toBe(after);
});

test('a text that would mean something else afterwards is refused, and so is one that is no JSON', () => {
  const twice = '{ // c\n  "a": 1,\n  "a": 2\n}';
  expect(() => changedJson(twice, () => ({ a: 3 }))).toThrow('is laid out in a way');
  for (const text of ['{ // c\n  "a": 1', '// c', '{ "a": /* c 1 }']) {
    expect(() => settingsOf(text)).toThrow(SettingsRefused);
  }
});
