/**
 * Machines on which the shell blocks of the pages are typed: each has an empty home, and is ended with its test. What a
 * page names and a test has not stands for something there; nothing else of a line is changed.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Block, commandsOf } from './doc-pages.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { type LeftRunning, ShellFolder } from './shell-folder.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { atTestEnd } from './test-end.ts';

/** Commands that run until somebody ends them. */
const SERVES = /^poste (?:relay (?:serve|witness)|run) /;
/** What a relay or a witness has printed when it is ready. */
const READY = / is ready\.\n[^]*\n.*\n$/;
/** What a page shows of a command that fails. */
const FAILS = /^poste: /m;

type Stand = [named: string | RegExp, here: string | (() => string)];

/** A machine as a page has it: an empty home, the names of the page, and ports of its own. */
export class Machine extends ShellFolder {
  readonly ports: { relay: number; operator: number };
  /** What the page names, and what stands for it here. The first is taken first. */
  readonly stands: Stand[];
  readonly left: LeftRunning[] = [];
  /** Lines that its user's shell has begun with. */
  begins = '';
  /** The machine whose relay this one uses. */
  relay: Machine = this;
  /** Where its user is. */
  cwd: string;

  constructor(folder: string, ports: Machine['ports']) {
    // Never the folder of this user's session, in which a daemon of this user may listen.
    super(folder, { XDG_RUNTIME_DIR: join(folder, 'run'), POSTE_LAN_LISTEN: '127.0.0.1:0', NO_COLOR: '1' });
    this.ports = ports;
    this.cwd = folder;
    this.stands = [
      // There is no terminal to ask on.
      [/\bposte setup(?= |$)/gm, 'poste setup --yes'],
      [/(?<=--key )SHA256:\S+/g, () => this.relay.field('fingerprint')],
      ['8787', String(ports.relay)],
      ['8788', String(ports.operator)],
    ];
  }

  static async make(...programs: string[]): Promise<Machine> {
    const ports = { relay: await freePort(), operator: await freePort() };
    const machine = new Machine(join(await temporaryFolder(), 'home'), ports);
    await machine.furnish();
    for (const name of ['run', '.config/poste'])
      await mkdir(join(machine.folder, name), { recursive: true, mode: 0o700 });
    await machine.settings('');
    for (const name of programs) await machine.program(`bin/${name}`, '');
    // A service would be one of the machine that the tests run on.
    for (const name of ['systemctl', 'launchctl']) await machine.program(`bin/${name}`, 'exit 1');
    atTestEnd(async () => {
      await machine.type('poste daemon stop || true');
    });
    return machine;
  }

  /** The settings of a relay that is started here without others. */
  async settings(more: string): Promise<void> {
    const own = [this.ports.relay, this.ports.operator].map((port) => `"127.0.0.1:${port}"`);
    const text = `listen = ${own[0]}\nadmin_listen = ${own[1]}\n${more}`;
    await writeFile(join(this.folder, '.config/poste/relay.toml'), text);
  }

  /** Types lines in one shell, which ends with the first that fails. */
  typed(...lines: string[]): Promise<string> {
    return this.type(['set -eu', this.begins, ...lines].join('\n'), this.environment, this.cwd);
  }

  /** A line of a page, as it is typed here. */
  here(line: string): string {
    return this.stands.reduce((text, [named, here]) => {
      return text.replaceAll(named, typeof here === 'string' ? here : here());
    }, line);
  }

  /** Resolves when what the line starts says that it is ready; what says nothing is ready when it has begun. */
  async serve(line: string): Promise<LeftRunning> {
    const left = this.leaveRunning(`exec ${line.replace(/ &$/, '')}`);
    this.left.push(left);
    if (!line.startsWith('poste relay ')) return left;
    const printed = await eventually(
      () => Promise.resolve(left.printed),
      (text) => READY.test(text),
    );
    if (!READY.test(printed)) throw new Error(`${line} is not ready: ${printed}`);
    return left;
  }

  /** What the relay or witness that was started last printed behind a name. */
  field(name: string): string {
    const printed = this.left.at(-1)?.printed ?? '';
    return new RegExp(`^ +${name} +(\\S+)`, 'm').exec(printed)?.[1] ?? '';
  }
}

/** Types a block, and returns what it prints. A machine is asked for by the name in its prompt. */
export async function typeBlock(block: Block, machineOf: (name: string) => Machine | undefined): Promise<string> {
  let printed = '';
  let machine: Machine | undefined;
  let lines: string[] = [];
  const enter = async (): Promise<void> => {
    if (machine && lines.length > 0) printed += await machine.typed(...lines);
    lines = [];
  };
  for (const command of commandsOf(block)) {
    const next = machineOf(command.machine);
    if (!next) throw new Error(`${block.page}:${block.line} has no machine ${command.machine}`);
    const line = next.here(command.text);
    const isAlone = SERVES.test(line) || FAILS.test(command.printed);
    if (next !== machine || isAlone) await enter();
    machine = next;
    if (SERVES.test(line)) await machine.serve(line.replace(/ +#.*$/, ''));
    else if (isAlone) await failing(machine.typed(line));
    else lines.push(line);
  }
  await enter();
  return printed;
}

/** Rejects unless the command fails, with what `poste` says of it. */
async function failing(command: Promise<string>): Promise<void> {
  const said = await command.catch(String);
  if (!FAILS.test(said)) throw new Error(`nothing failed: ${said}`);
}
