import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { build } from 'esbuild';
import { HOOK_INPUT_BYTES_MAX, hookInput, hookRunOf } from '../../../src/cli/mail/run-as-hook.ts';
import { START_OPTIONS } from '../../../scripts/program-options.ts';
import { hookCommand } from '../../../src/host/hooks/settings.ts';

const paths = { node: '/usr/bin/node', main: '/opt/poste/main.js' };

describe('the short way of a hook', () => {
  test.each([
    [[], { program: 'codex', waits: false }],
    [['--agent', 'alice', '--wait'], { program: 'codex', agent: 'alice', waits: true }],
    [['--default-agent', 'carol'], { program: 'codex', defaultAgent: 'carol', waits: false }],
  ])('takes what is written into settings: %j', (flags, run) => {
    expect(hookRunOf(['hooks', 'run', 'codex', ...flags])).toEqual(run);
  });

  test.each([{ agent: 'bob' }, { defaultAgent: 'bob' }, {}])(
    'takes the command line that is written for %j',
    (named) => {
      const words = hookCommand({ ...paths, program: 'claude-code', ...named });
      const argv = `${words} --wait`.split('/opt/poste/main.js ')[1]?.split(' ') ?? [];
      expect(hookRunOf(argv)).toEqual({ program: 'claude-code', ...named, waits: true });
    },
  );

  test.each([
    [['hooks', 'run']],
    [['hooks', 'run', 'nothing']],
    [['hooks', 'run', 'codex', '--help']],
    [['hooks', 'run', 'codex', '--agent']],
    [['hooks', 'run', 'codex', '--agent', '../x']],
    [['hooks', 'run', 'codex', '--default-agent', '../x']],
    [['hooks', 'install', 'codex']],
  ])('leaves everything else to the parser of the command line: %j', (argv) => {
    expect(hookRunOf(argv)).toBeUndefined();
  });
});

const stdin = (...pieces: string[]) =>
  Object.assign(Readable.from(pieces.map((piece) => Buffer.from(piece))), { isTTY: false });
const begun = (text: string, isWhole: boolean) => ({ bytes: Buffer.from(text), isWhole });

describe('the input of a hook', () => {
  test('is what was read at once, and the stream is not made for it', async () => {
    const context = {
      get stdin(): never {
        throw new Error('the stream was asked for');
      },
    };
    expect(await hookInput(context, begun('{"a":"ä"}', true))).toBe('{"a":"ä"}');
  });

  test('goes on in the stream where reading would have blocked', async () => {
    expect(await hookInput({ stdin: stdin('"b"', '}') }, begun('{"a":', false))).toBe('{"a":"b"}');
    expect(await hookInput({ stdin: stdin('{}') }, begun('', false))).toBe('{}');
  });

  test('of a terminal, and one that is too long, is none', async () => {
    const terminal = Object.assign(Readable.from([]), { isTTY: true });
    expect(await hookInput({ stdin: terminal }, begun('', false))).toBe('');
    const long = 'x'.repeat(HOOK_INPUT_BYTES_MAX);
    expect(await hookInput({ stdin: stdin() }, begun(`${long}x`, false))).toBe('');
    expect(await hookInput({ stdin: stdin('x') }, begun(long, false))).toBe('');
    expect(await hookInput({ stdin: stdin() }, begun(long, false))).toHaveLength(HOOK_INPUT_BYTES_MAX);
  });
});

test('what a hook loads is one file, which asks for no part of Node.js that takes long', async () => {
  const { outputFiles } = await build({ ...START_OPTIONS, outfile: '/nowhere/main.js', write: false });
  const program = outputFiles.find(({ path }) => path.endsWith('.js'))?.text ?? '';
  expect(program).toContain('runAsHook');
  // The rest of the program, for what is no hook.
  expect(program.match(/\b(?:import|require)\(.*?\)/g)).toEqual([
    'require("../program/mcp.cjs")',
    'require("../program/client.cjs")',
    'import("../program/run.js")',
  ]);
  expect(program).not.toMatch(/node:(?:crypto|stream)"/);
  // `poste mcp` reads as much before its first answer.
  expect(program.length).toBeLessThan(51_000);
});
