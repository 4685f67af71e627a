/**
 * Two hosts of the built program and relays over copies of one store: each host finds out that the relay keeps two
 * histories, tells its owner once, and exports what proves it; and mail that a store lost by being put back arrives.
 */
import { cp, readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EvidenceView } from '../../src/host/contract/relays.ts';
import { type EvidenceDocument, oracleVerdict } from '../support/evidence-oracle.ts';
import { eventually } from '../support/eventually.ts';
import { FlakyProxy } from '../support/flaky-proxy.ts';
import { KilledDaemon } from '../support/killed-daemon.ts';
import { KilledRelay } from '../support/killed-relay.ts';
import { makePairedStores } from '../support/paired-stores.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { type Environment, poste, run } from '../support/poste-process.ts';
import { EXIT } from '../support/relay-command.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { atTestEnd } from '../support/test-end.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const AGENT = 'agent';
const TEST_MS = 600_000;
/** States of a relay that is used. */
const USED: ReadonlySet<string> = new Set(['ready', 'two-histories']);
/** Records by which one log is larger than the other. */
const LARGER_BY = 12;
/** No file becomes longer than a block, of which evidence has some. */
const FULL_DISK = ['/bin/sh', '-c', `trap '' XFSZ; ulimit -f 1; exec "$0" "$@"`];
/** Messages each way between two looks. */
const MAILS = 4;

let paired: Awaited<ReturnType<typeof makePairedStores>>;
beforeAll(async () => {
  paired = await makePairedStores(['north', 'south'], AGENT);
});
afterAll(() => paired.remove());

/** A host whose relay the test can exchange for a copy. */
class Host {
  readonly daemon: KilledDaemon;
  /** Where requests of this host with such a target go. */
  portOf: (target: string) => number;
  readonly proxy: FlakyProxy;

  private constructor(daemon: KilledDaemon, proxy: FlakyProxy, port: number) {
    this.daemon = daemon;
    this.proxy = proxy;
    this.portOf = () => port;
  }

  /** Two hosts that are registered at the relay. One that it does not know yet is asked for again after a minute. */
  static async both(relay: KilledRelay): Promise<[north: Host, south: Host]> {
    const hosts = [await Host.#begin('north', relay), await Host.#begin('south', relay)] as [Host, Host];
    for (const host of hosts) await host.ready();
    return hosts;
  }

  static async #begin(name: 'north' | 'south', relay: KilledRelay): Promise<Host> {
    const proxy = await FlakyProxy.open(new SeededRandom(1), (target) => host.portOf(target));
    atTestEnd(() => proxy.close());
    const folder = join(await temporaryFolder(), name);
    await cp(join(paired.folder, name), folder, { recursive: true });
    const host = new Host(await KilledDaemon.over(name, folder), proxy, relay.port);
    await host.daemon.answered((client) => client.call('relay-set', { url: proxy.url }));
    return host;
  }

  async ready(): Promise<void> {
    const ask = () => this.daemon.answered((client) => client.call('relay-status', {}));
    const { state } = await eventually(ask, (answer) => USED.has(answer.state));
    if (!USED.has(state)) throw new Error(`the relay of ${this.daemon.name} is ${state}`);
  }

  /** From now on its requests go elsewhere. */
  isShown(portOf: (target: string) => number): void {
    this.portOf = portOf;
    this.proxy.cutAll();
  }

  get environment(): Environment {
    return { POSTE_HOME: this.daemon.folder };
  }

  /** Resolves with the message id. */
  async send(to: Host, subject: string): Promise<string> {
    const input = { to: [`${AGENT}@${to.daemon.name}`], subject, body: `${subject}: words`, idempotency_key: subject };
    return (await this.daemon.answered((client) => client.call('mail-send', input, { as: AGENT }))).message_id;
  }

  /** The subjects in a mailbox of this host. */
  async subjects(as = AGENT): Promise<string[]> {
    const input = { state: 'all', limit: 100 } as const;
    const { summaries = [] } = await this.daemon.answered((client) => client.call('mail-inbox', input, { as }));
    return summaries.map(({ subject }) => subject);
  }

  async stateOf(messageId: string): Promise<string | undefined> {
    const { rows } = await this.daemon.answered((client) => client.call('trace', { message_id: messageId }));
    return rows[0]?.state;
  }

  /** A daemon that begins looks at once before it traces; the one before may wait for ten minutes. */
  async looks(): Promise<void> {
    await this.daemon.kill();
    this.daemon.beginAgain();
    await this.ready();
    const asked = this.proxy.asked.length;
    const traced = async (): Promise<boolean> => {
      await this.stateOf('none').catch(() => undefined);
      return this.proxy.asked.slice(asked).includes('GET /v2/relay/log/checkpoint');
    };
    if (!(await eventually(traced, (isAsked) => isAsked))) throw new Error(`${this.daemon.name} did not look`);
  }

  async evidence(): Promise<EvidenceView[]> {
    return (await this.daemon.commandAnswered<{ evidence: EvidenceView[] }>('relay', 'evidence', 'list')).evidence;
  }
}

/** A relay whose position lies in its folder: a copy of the folder brings it along. */
async function relayOver(folder: string): Promise<KilledRelay> {
  return KilledRelay.over(folder, ['--position-file', join(folder, 'position')]);
}

/** What the owner was told of relays. */
async function toldOf(host: Host): Promise<string[]> {
  return (await host.subjects('owner')).filter((subject) => subject.startsWith('A relay with two histories'));
}

describe.runIf(IS_THOROUGH)('two relays from one copied store, under one key', () => {
  test.for([
    { way: 'the LAN', isBridged: false },
    { way: 'a relay that shows one of them its other log', isBridged: true },
  ])(
    'both owners learn of it by mail over $way, once, and what they export proves it',
    { timeout: TEST_MS },
    async ({ isBridged }) => {
      const folder = await temporaryFolder();
      const one = await relayOver(join(folder, 'one'));
      const [north, south] = await Host.both(one);
      await north.send(south, 'before');
      await expect.poll(() => south.subjects(), { timeout: PATIENCE_MS }).toEqual(['before']);
      await one.stop();
      await cp(join(folder, 'one'), join(folder, 'other'), { recursive: true });
      await one.beginAgain();
      const other = await relayOver(join(folder, 'other'));
      south.isShown(() => other.port);
      const sent = [await north.send(south, 'at one'), await south.send(north, 'at the other')];
      // A relay that is shown a note beyond its log may have been put back, and begins a new epoch.
      for (let nth = 0; nth < LARGER_BY; nth++) await south.send(north, `at the other ${nth}`);
      for (const [at, host] of [north, south].entries())
        await expect.poll(() => host.stateOf(sent[at]!), { timeout: PATIENCE_MS }).toBe('relay-accepted');
      for (const host of [north, south]) {
        await host.looks();
        expect(await host.evidence()).toEqual([]);
      }
      if (isBridged) south.isShown((target) => (target.includes('/log/') ? other.port : one.port));
      else
        for (const [here, there] of [
          [north, south],
          [south, north],
        ] as const) {
          const { name: host, lanAddress: address } = there.daemon;
          await here.daemon.answered((client) => client.call('peer-address', { host, address }));
        }
      for (let turn = 0; turn < 6; turn++) {
        const found = [await north.evidence(), await south.evidence()];
        if (found.every(({ length }) => length > 0)) break;
        // The first shows the newest note, every other one a note of the evidence.
        for (const last of Array.from({ length: MAILS }, (_, nth) => `${turn} ${nth}`)) {
          await north.send(south, last);
          await south.send(north, last);
          await expect.poll(() => south.subjects(), { timeout: PATIENCE_MS }).toContain(last);
          await expect.poll(() => north.subjects(), { timeout: PATIENCE_MS }).toContain(last);
        }
        for (const host of [north, south]) await host.looks();
      }
      for (const host of [north, south]) {
        const found = await host.evidence();
        expect(found.length).toBeGreaterThan(0);
        expect(found[0]).toMatchObject({ number: 1, kind: 'fork', signed: true });
        expect(await toldOf(host)).toHaveLength(1);
        const file = join(folder, `${host.daemon.name}.json`);
        await host.daemon.command('relay', 'evidence', 'export', '1', file);
        const cut = poste(['relay', 'evidence', 'export', '1', `${file}.cut`], host.environment, { under: FULL_DISK });
        expect((await cut.ended()).code).toBe(EXIT.failure);
        expect((await readdir(folder)).filter((name) => name.includes('cut'))).toEqual([]);
        const key = found[0]!.relay_pubkey;
        const checked = await run(['relay', 'evidence', 'check', file, '--relay-key', key, '--json']);
        expect([checked.code, JSON.parse(checked.stdout)]).toEqual([
          EXIT.failure,
          expect.objectContaining({ verdict: 'contradict' }),
        ]);
        expect(oracleVerdict(JSON.parse(await readFile(file, 'utf8')) as EvidenceDocument, key)).toBe('contradict');
      }
    },
  );
});
