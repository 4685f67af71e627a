import { execFile } from 'node:child_process';
import { mkdir, readFile, readdir, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { CLAUDE_CODE, CODEX, GEMINI } from '../../../../src/host/hooks/programs.ts';
import {
  claudeNotices,
  codexNotices,
  hookCommand,
  isHookCommand,
  readSettings,
  withHooks,
  withoutHooks,
  writeSettings,
} from '../../../../src/host/hooks/settings.ts';
import { changedJson, SettingsRefused } from '../../../../src/host/hooks/settings-text.ts';
import { BASH, neededProgram } from '../../../support/programs.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const OURS = hookCommand({ program: 'claude-code', node: '/usr/bin/node', main: '/opt/poste/main.js' });
const THEIRS = {
  model: 'opus',
  permissions: { allow: ['Bash(git:*)'] },
  hooks: {
    Stop: [{ hooks: [{ type: 'command', command: 'say done' }] }],
    PreToolUse: [{ matcher: 'Bash', hooks: [{ type: 'command', command: 'poste hooks run claude-code' }] }],
    Notification: [],
  },
};

const waiting = (command: string): object => ({
  hooks: [{ type: 'command', command, timeout: 86_400, async: true, asyncRewake: true }],
});

function eventsFor(version?: string): string[] {
  return Object.keys((withHooks({}, CLAUDE_CODE, OURS, version) as { hooks: object }).hooks);
}

describe('hooks in settings', () => {
  test('Claude Code gets seven hooks; one at each of three events waits in the background', () => {
    const short = { hooks: [{ type: 'command', command: OURS, timeout: 10 }] };
    expect(withHooks({}, CLAUDE_CODE, OURS, '2.1.330')).toEqual({
      hooks: {
        SessionStart: [short, waiting(`${OURS} --wait`)],
        UserPromptSubmit: [short, waiting(`${OURS} --wait`)],
        Stop: [waiting(OURS)],
        StopFailure: [short],
        SessionEnd: [short],
      },
    });
  });

  test('Claude Code gets no hook that its version does not know: it would refuse all of the settings', () => {
    for (const old of ['2.1.77', '2.0.100', '1.9.999', undefined]) {
      expect(eventsFor(old)).toEqual(['SessionStart', 'UserPromptSubmit', 'Stop', 'SessionEnd']);
    }
    for (const knows of ['2.1.78', '2.2.0', '10.0.0']) expect(eventsFor(knows)).toContain('StopFailure');
  });

  test('Codex gets five, and two of them no more time than Codex gives', () => {
    const { hooks } = withHooks({}, CODEX, 'c') as { hooks: Record<string, unknown> };
    expect(Object.keys(hooks)).toEqual(['SessionStart', 'UserPromptSubmit', 'Stop', 'Interrupt', 'SessionEnd']);
    expect(hooks['Interrupt']).toEqual(hooks['SessionEnd']);
    expect(hooks['SessionEnd']).toEqual([{ hooks: [{ type: 'command', command: 'c', timeout: 3 }] }]);
  });

  test('Gemini CLI gets four, with a name and a time limit in milliseconds', () => {
    const group = [{ hooks: [{ type: 'command', command: 'c', name: 'poste', timeout: 10_000 }] }];
    expect(withHooks({}, GEMINI, 'c')).toEqual({
      hooks: { SessionStart: group, BeforeAgent: group, AfterAgent: group, SessionEnd: group },
    });
  });

  test('everything else stays, in its order', () => {
    const after = withHooks(THEIRS, CLAUDE_CODE, OURS) as typeof THEIRS;
    expect(Object.keys(after)).toEqual(['model', 'permissions', 'hooks']);
    expect(after.hooks.Stop[0]).toEqual(THEIRS.hooks.Stop[0]);
    expect(after.hooks.PreToolUse).toEqual(THEIRS.hooks.PreToolUse);
    expect(after.hooks.Notification).toEqual([]);
  });

  test('installing again, also from elsewhere and for another agent, leaves one of each', () => {
    const elsewhere = hookCommand({ program: 'claude-code', node: '/n', main: '/m', agent: 'x', home: "/it's" });
    const twice = withHooks(withHooks(THEIRS, CLAUDE_CODE, elsewhere), CLAUDE_CODE, OURS);
    expect(twice).toEqual(withHooks(THEIRS, CLAUDE_CODE, OURS));
  });

  test('uninstalling takes exactly ours, also out of a group that others share', () => {
    expect(withoutHooks(withHooks(THEIRS, CLAUDE_CODE, OURS), CLAUDE_CODE)).toEqual(THEIRS);
    expect(withoutHooks(withHooks({}, CLAUDE_CODE, OURS), CLAUDE_CODE)).toEqual({});
    const shared = { hooks: { Stop: [{ matcher: '*', hooks: [{ command: OURS }, { command: 'say done' }] }] } };
    const left = { hooks: { Stop: [{ matcher: '*', hooks: [{ command: 'say done' }] }] } };
    expect(withoutHooks(shared, CLAUDE_CODE)).toEqual(left);
    expect(withoutHooks(shared, CODEX)).toEqual(shared);
    const odd = '{"hooks":{"__proto__":[{"hooks":[{"command":"say hello"}]}]}}';
    expect(JSON.stringify(withoutHooks(JSON.parse(odd), CLAUDE_CODE))).toBe(odd);
  });

  test.each([
    [[], 'is no JSON object'],
    [{ hooks: [] }, 'has "hooks" that are no object'],
    [{ hooks: { Stop: {} } }, 'has hooks of Stop that are no list'],
    [{ hooks: { Stop: ['say done'] } }, 'has a hook of Stop that is no'],
  ])('settings of another shape are refused: %j', (settings, why) => {
    expect(() => withHooks(settings, CLAUDE_CODE, OURS)).toThrow(SettingsRefused);
    expect(() => withHooks(settings, CLAUDE_CODE, OURS)).toThrow(why);
  });
});

describe('the command of a hook', () => {
  test('is known whatever it holds', () => {
    const command = { node: "/o'clock/node", main: '/a b/main.js', agent: 'x', home: '/h' };
    expect(isHookCommand(hookCommand({ program: 'codex', ...command }), 'codex')).toBe(true);
    expect(isHookCommand(hookCommand({ program: 'codex', ...command }), 'claude-code')).toBe(false);
    expect(isHookCommand('poste hooks run codex', 'codex')).toBe(false);
    const before = `exec /bin/sh -c '[ -x "$1" ] && [ -f "$2" ] || exit 0; exec "$@"' poste-hook /n /m hooks run codex`;
    expect(isHookCommand(before, 'codex')).toBe(true);
  });

  test.for(['sh', 'bash'])(
    'runs in %s with every word whole, by the Node.js or Poste of the PATH when its own are gone, or does nothing',
    async (name, context) => {
      const shell = name === 'bash' ? neededProgram(context, BASH) : name;
      const folder = join(await temporaryFolder(), "it's $HOME");
      await mkdir(folder);
      const main = join(folder, 'main.mjs');
      await writeFile(main, 'console.log(JSON.stringify([process.argv.slice(2), process.env.POSTE_HOME]))');
      const given = { program: 'codex', node: process.execPath, agent: 'x', home: folder } as const;
      const bin = join(folder, 'bin');
      await mkdir(bin);
      const run = async (command: string, PATH = process.env['PATH']): Promise<string> => {
        const line = name === 'sh' ? '/bin/sh' : shell;
        return (await promisify(execFile)(line, ['-c', command], { env: { PATH } })).stdout;
      };
      expect(JSON.parse(await run(hookCommand({ ...given, main })))).toEqual([
        ['hooks', 'run', 'codex', '--agent', 'x'],
        folder,
      ]);
      // `env` is all that it needs of the PATH.
      await symlink('/usr/bin/env', join(bin, 'env'));
      const gone = hookCommand({ ...given, main: `${main}.gone` });
      const other = hookCommand({ ...given, main, node: '/no/such/node' });
      for (const command of [gone, other]) expect(await run(command, bin)).toBe('');
      await symlink(process.execPath, join(bin, 'node'));
      expect(JSON.parse(await run(other, bin))).toEqual([['hooks', 'run', 'codex', '--agent', 'x'], folder]);
      expect(await run(gone, bin)).toBe('');
      await writeFile(join(bin, 'poste'), '#!/bin/sh\necho "poste $*"\n', { mode: 0o755 });
      expect(await run(gone, bin)).toBe('poste hooks run codex --agent x\n');
    },
  );
});

function withB(settings: unknown): object {
  return { ...(settings as object), b: 2 };
}

describe('a settings file', () => {
  test('is replaced as a whole, with its mode and indentation, and a copy of what it was', async () => {
    const folder = await temporaryFolder();
    const real = join(folder, 'real.json');
    const link = join(folder, 'settings.json');
    await writeFile(real, '{\n\t"a": 1\n}\n', { mode: 0o640 });
    await symlink(real, link);
    const file = readSettings(link);
    const text = changedJson(file.text, withB);
    expect(text).toBe('{\n\t"a": 1,\n\t"b": 2\n}\n');
    const again = { ...file, text };
    const backups = [await writeSettings(file, text, 0), await writeSettings(again, text, 0)];
    expect(backups).toEqual([`${real}.before-poste-19700101T000000Z`, `${real}.before-poste-19700101T000000Z-2`]);
    expect(await readFile(backups[0] ?? '', 'utf8')).toBe(file.text);
    expect(await readFile(link, 'utf8')).toBe(text);
    expect((await stat(real)).mode & 0o777).toBe(0o640);
    expect(await readdir(folder)).toHaveLength(4);
    expect(changedJson(readSettings(link).text, withB)).toBe(text);
  });

  test('is made, with its folder, when there is none', async () => {
    const path = join(await temporaryFolder(), 'new', 'settings.json');
    expect(await writeSettings(readSettings(path), '{}\n', 0)).toBeNull();
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  test('is not written when another program changed it since it was read', async () => {
    const path = join(await temporaryFolder(), 'settings.json');
    await writeFile(path, '{}');
    const file = readSettings(path);
    await writeFile(path, '{"theirs":1}');
    await expect(writeSettings(file, '{"ours":1}', 0)).rejects.toThrow('was changed by another program');
    expect(await readFile(path, 'utf8')).toBe('{"theirs":1}');
  });

  test('keeps the mark that it begins with', async () => {
    const path = join(await temporaryFolder(), 'settings.json');
    await writeFile(path, '\uFEFF{"a":1}');
    const file = readSettings(path);
    expect(file.text).toBe('{"a":1}');
    await writeSettings(file, changedJson(file.text, withB), 0);
    expect(await readFile(path, 'utf8')).toBe('\uFEFF{"a":1,"b":2}');
  });

  test('is refused when it is no JSON or cannot be read', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'broken.json'), '{"a": 1');
    const { text } = readSettings(join(folder, 'broken.json'));
    expect(() => changedJson(text, () => ({}))).toThrow(new SettingsRefused('is no JSON'));
    expect(() => readSettings(folder)).toThrow('cannot be read (it is a folder)');
    await writeFile(join(folder, 'latin1.json'), Buffer.from('{\n  "name": "J\xfcrgen"\n}\n', 'latin1'));
    expect(() => readSettings(join(folder, 'latin1.json'))).toThrow('cannot be read (line 2 is no UTF-8)');
  });
});

describe('the config of Codex', () => {
  test('is told when it turns hooks off, and refused when it is broken', async () => {
    const folder = await temporaryFolder();
    expect(codexNotices(folder)).toHaveLength(2);
    const config = join(folder, 'config.toml');
    await writeFile(config, '[features]\nhooks = false\n');
    expect(codexNotices(folder)[0]).toContain('set hooks = true');
    await writeFile(config, 'model = "o"\n[features\n');
    expect(() => codexNotices(folder)).toThrow('config.toml, line 2, is no TOML');
  });
});

function named(settings: unknown): string[] {
  return claudeNotices({ path: '/s.json', text: JSON.stringify(settings) });
}

describe('tools that the owner has not allowed', () => {
  test.each([{}, { permissions: 'all' }, { permissions: { allow: ['mcp__other'] } }, []])(
    'Claude Code: the rule and its file are named for %j',
    (settings) => {
      expect(named(settings)).toEqual([expect.stringContaining('add "mcp__poste" to permissions.allow in /s.json')]);
    },
  );

  test('Claude Code: nothing is said once a rule allows them', () => {
    expect(named({ permissions: { allow: ['Bash(ls)', 'mcp__poste'] } })).toEqual([]);
    expect(named({ permissions: { allow: ['mcp__poste__*'] } })).toEqual([]);
  });

  test('Codex: the setting is named until it approves', async () => {
    const folder = await temporaryFolder();
    const config = join(folder, 'config.toml');
    const missing = expect.stringContaining(`default_tools_approval_mode = "approve"`) as string;
    expect(codexNotices(folder)).toContainEqual(missing);
    await writeFile(config, '[mcp_servers.poste]\ncommand = "poste"\ndefault_tools_approval_mode = "prompt"\n');
    expect(codexNotices(folder)).toContainEqual(missing);
    await writeFile(config, '[mcp_servers.poste]\ncommand = "poste"\ndefault_tools_approval_mode = "approve"\n');
    expect(codexNotices(folder)).toEqual([expect.stringContaining('trust')]);
  });
});
