/** Settings with comments: Poste's members come and go, and nobody else's byte changes. */
import { describe, expect, test } from 'vitest';
import { CLAUDE_CODE } from '../../../../src/host/hooks/programs.ts';
import { SETTLED_PROGRAMS, withoutServer, withServer } from '../../../../src/host/hooks/mcp-settings.ts';
import { hookCommand, withHooks, withoutHooks } from '../../../../src/host/hooks/settings.ts';
import { changedJson, settingsOf, SettingsRefused } from '../../../../src/host/hooks/settings-text.ts';

const SERVER = { command: '/n', args: ['/m/cli/main.js', 'mcp', '--agent', 'x'], env: {} };

const COMMENTED = {
  'a comment above, beside and below': '{\n  // why\n  "theme": "dark" // at night\n  // the end\n}\n',
  'commas before brackets': '{\n\t"theme": "dark", // at night\n\t"list": [1, 2,],\n}\n',
  'lines that end in CR and LF': '{\r\n    /* why */\r\n    "theme": "dark"\r\n}\r\n',
  'one line': '{ "theme": "dark" /* at night */ }',
  'a comment alone': '// mine\n{\n  // nothing yet\n}\n',
  'others of each list':
    '{\n  "mcpServers": {\n    "other": { "command": "o" } // theirs\n  },\n  "mcp": {\n    "other": { "command": ["o"] }, // theirs\n  },\n  "hooks": {\n    // mine\n    "Stop": [\n      // loud\n      { "hooks": [{ "type": "command", "command": "say done" }] }\n    ]\n  }\n}\n',
};

function comments(text: string): string[] {
  return text.match(/\/\/[^\n\r]*|\/\*.*?\*\//g) ?? [];
}

function hooked(now: string | undefined, agent: string): string {
  const command = hookCommand({ program: 'claude-code', node: '/n', main: '/m', agent });
  return changedJson(now, (settings) => withHooks(settings, CLAUDE_CODE, command)) ?? '';
}

describe.each(Object.entries(COMMENTED))('settings with %s', (_name, text) => {
  test.each(SETTLED_PROGRAMS.filter((program) => program !== 'codex'))('the server of %s', (program) => {
    const after = withServer(program, SERVER)(text) ?? '';
    expect(JSON.stringify(settingsOf(after))).toContain('/m/cli/main.js');
    expect(comments(after)).toEqual(comments(text));
    const left = withoutServer(program, SERVER)(after) ?? '';
    expect(settingsOf(left)).toEqual(settingsOf(text));
    expect(comments(left)).toEqual(comments(text));
  });

  test('hooks, and then those of another agent', () => {
    const after = hooked(hooked(text, 'a'), 'b');
    expect(comments(after)).toEqual(comments(text));
    expect(settingsOf(after)).toEqual(settingsOf(hooked(JSON.stringify(settingsOf(text)), 'b')));
    const left = changedJson(after, (settings) => withoutHooks(settings, CLAUDE_CODE)) ?? '';
    expect(comments(left)).toEqual(comments(text));
  });
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
