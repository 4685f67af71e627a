/**
 * Mail between two hosts that the LAN does not connect, over two relays: one of them is killed, and mail goes on.
 * What is printed was checked.
 */
import { strict as assert } from 'node:assert';
import { join } from 'node:path';
import { KilledDaemon } from '../../test/support/killed-daemon.ts';
import { KilledRelay } from '../../test/support/killed-relay.ts';
import { makePairedStores } from '../../test/support/paired-stores.ts';
import { until } from '../until.ts';
import { step } from './step.ts';

const AGENT = 'agent';
const [HERE, THERE] = ['cabin', 'office'];

export async function showTwoRelays(): Promise<void> {
  const paired = await makePairedStores([HERE, THERE], AGENT);
  try {
    const relays = [await KilledRelay.begin(), await KilledRelay.begin()];
    const [here, there] = [await daemonIn(paired.folder, HERE), await daemonIn(paired.folder, THERE)];
    for (const host of [here, there]) await useBoth(host, relays);
    await showMailGoesOn(relays, here, there);
  } finally {
    await paired.remove();
  }
}

/** On a port that the other host does not know: the LAN does not connect them. */
function daemonIn(folder: string, name: string): Promise<KilledDaemon> {
  return KilledDaemon.over(name, join(folder, name));
}

async function useBoth(host: KilledDaemon, relays: readonly KilledRelay[]): Promise<void> {
  for (const [at, { url }] of relays.entries()) {
    await host.answered((client) => client.call(at === 0 ? 'relay-set' : 'relay-add', { url }));
  }
  await until(`both relays know ${host.name}`, async () => {
    const { relays: known } = await host.answered((client) => client.call('relay-list', {}));
    return known.every(({ state }) => state === 'ready') ? true : undefined;
  });
}

async function showMailGoesOn(relays: readonly KilledRelay[], here: KilledDaemon, there: KilledDaemon): Promise<void> {
  const sent = ['Over the first relay', 'While the first relay is dead', 'After it came back'];
  const [first] = relays;
  assert.ok(first && sent[0] && sent[1] && sent[2]);
  await arrives(here, there, sent[0]);
  step(`Two more hosts have two relays each, and no LAN between them`, `${HERE} writes to ${THERE}: it arrived`);
  await first.kill();
  const killedMs = performance.now();
  await arrives(here, there, sent[1]);
  const seconds = ((performance.now() - killedMs) / 1000).toFixed(1);
  step(
    'The first relay is killed (kill -9)',
    `the next message went over the second, and was there ${seconds} s later`,
  );
  await first.beginAgain();
  await arrives(here, there, sent[2]);
  await until('every message is confirmed', async () => {
    const { rows } = await here.answered((client) => client.call('outbox', {}));
    return rows.length === 0 ? true : undefined;
  });
  assert.deepEqual(await subjectsOf(there), sent);
  step('It starts again', 'all three messages are there, each of them once and in order, and confirmed');
}

async function arrives(here: KilledDaemon, there: KilledDaemon, subject: string): Promise<void> {
  const mail = { to: [`${AGENT}@${there.name}`], subject, body: subject, idempotency_key: subject };
  await here.answered((client) => client.call('mail-send', mail, { as: AGENT }));
  await until(`"${subject}" arrives`, async () => ((await subjectsOf(there)).includes(subject) ? true : undefined));
}

/** Oldest first. */
async function subjectsOf(host: KilledDaemon): Promise<string[]> {
  const input = { state: 'all' } as const;
  const { summaries = [] } = await host.answered((client) => client.call('mail-inbox', input, { as: AGENT }));
  return summaries.map(({ subject }) => subject).toReversed();
}
