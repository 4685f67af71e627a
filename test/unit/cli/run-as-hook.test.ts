import { describe, expect, test } from 'vitest';
import { hookRunOf } from '../../../src/cli/mail/run-as-hook.ts';
import { hookCommand } from '../../../src/host/hooks/settings.ts';

const paths = { node: '/usr/bin/node', main: '/opt/poste/main.js' };

describe('the short way of a hook', () => {
  test.each([
    [{}, ['hooks', 'run', 'codex'], { program: 'codex', agent: undefined, waits: false }],
    [{ POSTE_AGENT: 'bob' }, ['hooks', 'run', 'codex'], { program: 'codex', agent: 'bob', waits: false }],
    [
      { POSTE_AGENT: 'bob' },
      ['hooks', 'run', 'claude-code', '--agent', 'alice', '--wait'],
      { program: 'claude-code', agent: 'alice', waits: true },
    ],
  ])('takes what is written into settings: %j %j', (environment, argv, run) => {
    expect(hookRunOf(argv, environment)).toEqual(run);
  });

  test('takes the command line that hooks install writes', () => {
    const words = hookCommand({ ...paths, program: 'claude-code', agent: 'bob' });
    const argv = `${words} --wait`.split('/opt/poste/main.js ')[1]?.split(' ') ?? [];
    expect(hookRunOf(argv, {})).toEqual({ program: 'claude-code', agent: 'bob', waits: true });
  });

  test.each([
    [['hooks', 'run']],
    [['hooks', 'run', 'nothing']],
    [['hooks', 'run', 'codex', '--help']],
    [['hooks', 'run', 'codex', '--agent']],
    [['hooks', 'run', 'codex', '--agent', '../x']],
    [['hooks', 'install', 'codex']],
  ])('leaves everything else to the parser of the command line: %j', (argv) => {
    expect(hookRunOf(argv, {})).toBeUndefined();
  });
});
