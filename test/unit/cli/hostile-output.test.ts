/** What others wrote never reaches a terminal as it came, whatever command shows it. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isPrintable } from '../../../src/protocol/printable.ts';
import { CommandRun, commandContext, runHere } from '../../support/command-run.ts';
import { posteHome } from '../../support/poste-home.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

/** Clears the screen, sets the title, moves up a line, turns text around, hides it, begins a line of ours. */
const HOSTILE = 'x\u001b[2J\u001b]0;owned\u0007\u009b1A\u202eevil\u2066\u200b\u{e0041}\r\u0085\u2028y';

/** The lines of an output that a terminal would obey, tabs of bodies aside. */
function obeyed(output: string): string[] {
  return output.split('\n').filter((line) => !isPrintable(line.replaceAll('\t', ' ')));
}

test('hostile words are escaped by every command that shows them', { timeout: 60_000 }, async () => {
  const home = await posteHome();
  await home.daemon();
  for (const name of ['ann', 'ben']) await home.json('agent', 'add', name);
  const words = ['--subject', HOSTILE, '--body', `${HOSTILE}\n\tposte: forged`, '--ref', HOSTILE];
  const { message_id: id } = await home.json<{ message_id: string }>('send', '--as', 'ann', '--to', 'ben', ...words);
  await home.json('send', '--as', 'ann', '--to', 'ben', ...words);

  const commands = [
    ['inbox', '--as', 'ben'],
    ['inbox', 'read', '--peek', '--as', 'ben', id],
    ['inbox', 'thread', '--as', 'ben', id],
    ['inbox', 'search', '--as', 'ben', 'evil'],
    ['inbox', 'read', '--as', 'ben', HOSTILE],
    // Two begin so.
    ['inbox', 'read', '--as', 'ben', id.slice(0, 6)],
    ['sent', '--as', 'ann'],
    ['waiting'],
    ['sent', '--as', 'ann', id],
    ['trace', id],
    ['send', '--as', 'ann', '--to', HOSTILE, '--subject', 's', '--body', 'b'],
    ['peer', 'remove', '--yes', HOSTILE],
    ['outbox', '--host', HOSTILE],
    [HOSTILE],
    ['inbox', `--${HOSTILE}`],
    ['completion', 'candidates', '--', 'inbox', 'read', '--as', 'ben', ''],
  ];
  let shown = 0;
  for (const args of commands) {
    for (const [more, columns] of [
      [[], undefined],
      [[], 100],
      [['--json'], undefined],
    ] as const) {
      const isFor = args.includes('--') ? args : [...args, ...more];
      const world = { environment: home.environment, ...(columns !== undefined && { columns }) };
      const { stdout, stderr } = await runHere(isFor, world);
      expect({ args: isFor, obeyed: [...obeyed(stdout), ...obeyed(stderr)] }).toEqual({ args: isFor, obeyed: [] });
      if (/u(?:\{1b\}|001b)/.test(stdout + stderr)) shown++;
    }
  }
  // Most of them show the words: otherwise this would say nothing.
  expect(shown).toBeGreaterThan(30);

  const spelled = 'می\u200cخواهم क्\u200dष 👩\u200d👩\u200d👧\u200d👦';
  const spelledWords = ['--subject', spelled, '--body', spelled];
  const sent = await home.json<{ message_id: string }>('send', '--as', 'ann', '--to', 'ben', ...spelledWords);
  const own = sent.message_id;
  for (const args of [
    ['sent', '--as', 'ann', own],
    ['inbox', 'read', '--as', 'ben', own],
    ['inbox', 'search', '--as', 'ben', 'خواهم'],
  ])
    expect((await runHere(args, { environment: home.environment, columns: 200 })).stdout).toContain(spelled);

  const following = new CommandRun(
    ['inbox', '--follow', '--as', 'ben'],
    commandContext({ environment: home.environment, columns: 400 }),
  );
  await home.json('send', '--as', 'ann', '--to', 'ben', ...words, '--kind', 'task');
  await following.printed('task');
  await following.stop();
  expect(following.stdout).toContain('\\u{1b}');
  expect(obeyed(following.stdout)).toEqual([]);
});

test('the name of a folder is escaped by every command that shows it', { timeout: 60_000 }, async () => {
  const folder = join(await temporaryFolder(), 'x\u001b[2J\u009b1A\u202eevil\ny');
  await mkdir(folder);
  const store = join(folder, 'relay');
  const home = { POSTE_HOME: folder, HOME: folder, PATH: '' };
  const backup = join(folder, 'host.backup');
  const relay = ['--store-dir', store, '--key-file', join(folder, 'key')];
  const commands: [args: string[], environment: Record<string, string>][] = [
    [['relay', 'doctor', ...relay], {}],
    [['relay', 'serve', '--print-config', ...relay], {}],
    [['relay', 'backup', backup, '--store-dir', store], {}],
    [['relay', 'rotate-epoch', '--store-dir', store], {}],
    [['init'], home],
    [['backup', backup], home],
    [['restore', '--yes', '--force', backup], home],
    [['status'], home],
    [['doctor'], home],
    [['daemon', 'install', '--dry-run'], { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }],
    [['daemon', 'uninstall', '--dry-run'], { HOME: folder, XDG_CONFIG_HOME: folder }],
  ];
  const shown: string[] = [];
  for (const [args, environment] of commands) {
    for (const more of [[], ...(args.includes('--print-config') ? [] : [['--json']])]) {
      const { stdout, stderr } = await runHere([...args, ...more], { environment });
      const lines = [...obeyed(stdout), ...obeyed(stderr)];
      expect({ args: args.slice(0, 2), lines }).toEqual({ args: args.slice(0, 2), lines: [] });
      // A line break in it begins no line.
      expect((stdout + stderr).split('\n').filter((line) => line.startsWith('y'))).toEqual([]);
      if (/evil/.test(stdout + stderr)) shown.push(args.slice(0, 2).join(' '));
    }
  }
  expect(new Set(shown).size).toBeGreaterThan(8);
});
