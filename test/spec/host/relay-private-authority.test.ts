/** A relay whose certificate a private authority signed: it is used with that authority's certificate alone. */
import { expect, test } from 'vitest';
import { isRefusal } from '../../../src/host/core/refusal.ts';
import { healthOf } from '../../../src/host/doctor/diagnosis.ts';
import { type RelayWorld, WORLD_TEST_MS, inState, ready, relayWorld, until } from '../../support/relay-world.ts';
import { ANOTHER_AUTHORITY, AUTHORITY } from '../../support/test-authority.ts';
import { reachOver, UNOPENED } from '../../support/unasked-parts.ts';
import { tlsBefore } from './tls-relay.ts';

const CA = { pem: `Our authority:\n${AUTHORITY}`, path: '/etc/ssl/our.pem' };
const FACTS = { version: '1', pid: 7, startedAtMs: 0, store: '/s', config: '/c', socket: '/d', linesLost: () => 0 };

function healthOfAlice({ alice: { context, side } }: RelayWorld): ReturnType<typeof healthOf> {
  const lanListen = { host: '127.0.0.1', port: 8789 };
  const relay = side!;
  const reach = reachOver(relay);
  return healthOf({ context, facts: FACTS, lan: { port: 8789 }, lanListen, web: UNOPENED, relay, reach });
}

test(
  'it is named once, kept with the relay, and used by everything that asks it, also after a restart',
  async () => {
    const w = await relayWorld();
    const url = await tlsBefore(() => w.relay.port);
    w.alice.start();
    const set = await w.alice.side?.set({ url, ca: CA });
    expect(set).toMatchObject({ relay: { url, ca_file: CA.path }, trust: 'first-use' });
    await w.bob.use(w.proxy.url);
    for (const host of [w.alice, w.bob]) await ready(host);
    const sent = await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await inState(w.alice, sent, 'done');
    await w.alice.restart();
    await ready(w.alice);
    // The same address again keeps it, as it keeps where the token comes from.
    expect(await w.alice.side?.set({ url })).toMatchObject({ relay: { ca_file: CA.path }, trust: 'same' });
    await ready(w.alice);
    const { signal } = new AbortController();
    const { checks } = await healthOfAlice(w).doctor(signal);
    expect(checks.find(({ id }) => id === 'relay-queue')).toMatchObject({ state: 'ok' });
    const trace = await healthOfAlice(w).trace({ message_id: sent.ref }, signal);
    expect(trace).toMatchObject({ rows: [{ proof: { state: 'served' } }] });
    await w.alice.side?.unset();
    expect(isRefusal((await w.alice.side?.set({ url })) ?? {})).toBe(true);
  },
  WORLD_TEST_MS,
);

test(
  'without it, and with another one, the refusal says that the certificate is not trusted, and names --ca',
  async () => {
    const w = await relayWorld();
    const url = await tlsBefore(() => w.relay.port);
    w.alice.start();
    for (const [ca, words] of [
      [undefined, /its certificate is not trusted here \([A-Z_]+\)\. If a private authority/],
      [{ pem: ANOTHER_AUTHORITY, path: '/other.pem' }, /\([A-Z_]+\): the authority of \/other\.pem did not sign it\./],
    ] as const) {
      const refused = await w.alice.side?.set({ url, ...(ca && { ca }) });
      expect(refused).toMatchObject({ code: 'RELAY_UNREACHABLE', message: expect.stringMatching(words) });
      expect(refused).toMatchObject({ message: expect.stringContaining(`poste relay set ${url} --ca <file>`) });
      expect(JSON.stringify(refused)).not.toContain('did not answer');
    }
    expect((await w.alice.status()).relay).toBeNull();
  },
  WORLD_TEST_MS,
);

test(
  'an authority that gave another certificate since is said by the link and by doctor, with the same mend',
  async () => {
    const w = await relayWorld();
    const url = await tlsBefore(() => w.relay.port);
    w.alice.start();
    await w.alice.side?.set({ url, ca: CA });
    await ready(w.alice);
    await w.alice.stop();
    await w.alice.store.transact((tx) => {
      tx.put('relay', [], { ...tx.get('relay')!, ca: { pem: ANOTHER_AUTHORITY, path: '/other.pem' } });
    });
    await w.alice.restart();
    await until(async () =>
      expect(await w.alice.status()).toMatchObject({ state: 'failing', problem: { code: 'CERTIFICATE_NOT_TRUSTED' } }),
    );
    const { checks } = await healthOfAlice(w).doctor(new AbortController().signal);
    expect(checks.find(({ id }) => id === 'relay-reach')).toMatchObject({
      state: 'broken',
      command: `poste relay set ${url} --ca <file with the certificate of its authority>`,
      sentence: expect.stringContaining('its certificate is not trusted here'),
    });
  },
  WORLD_TEST_MS,
);

test('what is named as an authority and is none is refused in one sentence', async () => {
  const w = await relayWorld();
  w.alice.start();
  const of = (pem: string, url = 'https://127.0.0.1:1') => w.alice.side?.set({ url, ca: { pem, path: '/x' } });
  const broken = AUTHORITY.replace(/[A-Za-z0-9+/]{40}/, 'A'.repeat(40));
  for (const pem of ['', 'words', AUTHORITY.replaceAll('CERTIFICATE', 'PUBLIC KEY'), broken]) {
    const message = '/x holds no certificate that can be read: it must be PEM, with -----BEGIN CERTIFICATE-----.';
    expect(await of(pem)).toMatchObject({ code: 'BAD_INPUT', message });
  }
  expect(await of(AUTHORITY, w.proxy.url)).toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringContaining('--ca is for https'),
  });
});
