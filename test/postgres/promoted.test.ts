/**
 * Relays on a real primary and its synchronous standby, while the names of standbys are missing and the standby is
 * promoted.
 */
import { hash } from 'node:crypto';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { RelayClient } from '../../src/host/relay/relay-client.ts';
import { CommandRun, commandContext } from '../support/command-run.ts';
import { freePort } from '../support/free-port.ts';
import { type TestHost, alice, bob, relay as relayHost } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { serveArgs } from '../support/poste-process.ts';
import { startPostgres } from '../support/postgres.ts';
import { POSTGRES, neededProgram } from '../support/programs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { atTestEnd } from '../support/test-end.ts';

const KEY = { MAIL_RELAY_KEY: hash('sha256', relayHost.name, 'buffer').toString('base64') };

/** `poste relay serve` over a log on these servers. */
class Served {
  readonly #run: CommandRun;
  readonly #url: string;
  readonly #adminUrl: string;

  private constructor(run: CommandRun, port: number, adminPort: number) {
    this.#run = run;
    this.#url = `http://127.0.0.1:${port}`;
    this.#adminUrl = `http://127.0.0.1:${adminPort}`;
  }

  static async start(storeDir: string, log: string): Promise<Served> {
    const [port, adminPort] = [await freePort(), await freePort()];
    const listen = ['--listen', `127.0.0.1:${port}`, '--admin-listen', `127.0.0.1:${adminPort}`];
    const args = [...serveArgs(storeDir, [...listen, '--log', log, '--lease-seconds', '2'])];
    const run = new CommandRun(args, commandContext({ environment: KEY }));
    atTestEnd(() => run.stop());
    return new Served(run, port, adminPort);
  }

  /** Returns what `/readyz` says: `ready`, or why not. */
  async readyz(): Promise<string> {
    const answer = await fetch(`${this.#adminUrl}/readyz`).catch(() => undefined);
    if (!answer) return 'no answer';
    const { status, detail } = (await answer.json()) as { status: string; detail?: string };
    return detail ?? status;
  }

  client(host: TestHost): RelayClient {
    return new RelayClient(
      { url: this.#url, signer: host.signer, hostName: host.name, nowMs: Date.now },
      relayHost.key,
    );
  }

  async info(): Promise<number> {
    return (await fetch(`${this.#url}/v2/relay/info`)).status;
  }

  get said(): string {
    return this.#run.stderr;
  }

  stop(): Promise<void> {
    return this.#run.stop();
  }
}

test('a relay waits for names, leads through a promotion, and the next one keeps the epoch', async (context) => {
  const { primary, end } = await startPostgres(neededProgram(context, POSTGRES));
  atTestEnd(end);
  const standby = await primary.standby('second');
  const database = await primary.newDatabase();
  const log = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/${database}`;
  const folder = await temporaryFolder();

  // As Patroni leaves it until it has chosen a standby.
  await primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
  await primary.query('SELECT pg_reload_conf()');
  const first = await Served.start(join(folder, 'first'), log);
  await expect.poll(() => first.readyz()).toContain('synchronous_standby_names holds a *');
  expect(await first.info()).toBe(503);
  expect(await primary.query("SELECT to_regclass('relay_log') AS made", [], database)).toEqual([{ made: null }]);
  await primary.synchronousWith('second');
  await expect.poll(() => first.readyz()).toBe('ready');
  for (const host of [alice, bob]) await first.client(host).enrol();
  const { epoch } = await first.client(alice).push([itemTo([bob], 'before')]);

  // Names that go while it leads: it takes nothing, and goes on when they are back.
  await primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
  await primary.query('SELECT pg_reload_conf()');
  await expect.poll(() => first.readyz()).toContain('nothing is accepted: synchronous_standby_names holds a *');
  await expect(first.client(alice).push([itemTo([bob], 'refused')])).rejects.toThrow('503');
  await primary.synchronousWith('second');
  await expect.poll(() => first.readyz()).toBe('ready');

  await primary.kill();
  await standby.promote();
  await expect.poll(() => first.readyz()).toContain('names no standby');
  await expect(first.client(alice).push([itemTo([bob], 'alone')])).rejects.toThrow('503');
  await primary.follow(standby);
  await standby.synchronousWith('primary');
  await expect.poll(() => first.readyz()).toBe('ready');
  expect(first.said).toContain('the log lies on another server now');
  const pushed = await first.client(alice).push([itemTo([bob], 'after')]);
  expect([pushed.epoch, pushed.results[0]?.status]).toEqual([epoch, 'accepted']);
  await first.stop();

  const next = await Served.start(join(folder, 'next'), log);
  await expect.poll(() => next.readyz()).toBe('ready');
  const page = await next.client(bob).pull();
  expect([page.epoch, page.items.map(({ item_id: id }) => id)]).toEqual([epoch, ['before', 'after']]);
  await next.stop();
});
