/** Agents, peers and sessions for tests of the host's mail. */
import { randomBytes } from 'node:crypto';
import { signerFromSeed } from '../../src/protocol/ed25519.ts';
import type { HostName } from '../../src/protocol/names.ts';
import { type Refusal, isRefusal } from '../../src/host/core/refusal.ts';
import type { AgentId, DirectoryAgent, PeerId, PeerRow } from '../../src/host/core/rows.ts';
import type { SessionRow } from '../../src/host/core/session-rows.ts';
import { SendInput, type SendResult } from '../../src/host/contract/mail.ts';
import { parseInput } from '../../src/host/contract/parse-input.ts';
import { actingAgent, addAgent } from '../../src/host/agents/agents.ts';
import type { HostContext } from '../../src/host/base/context.ts';
import { generateSealKey } from '../../src/host/wire/sealing.ts';
import { sendMail } from '../../src/host/mail/send.ts';
import { type ContextOptions, type TestContext, testContext } from './test-context.ts';

/** The value, or a failure of the test that says what was refused. */
export function accepted<T>(value: T | Refusal): T {
  if (isRefusal(value)) throw new Error(`refused: ${value.code}: ${value.message}`);
  return value;
}

/** The refusal, or a failure of the test. */
export function refused(value: unknown): Refusal {
  if (!isRefusal(value)) throw new Error(`not refused: ${JSON.stringify(value)}`);
  return value;
}

/** A host with agents of these names, some with a role: `tester:qa`. */
export async function contextOf(names: readonly string[], options: ContextOptions = {}): Promise<TestContext> {
  const context = await testContext(options);
  await addAgents(context, names);
  return context;
}

export async function addAgents(context: HostContext, names: readonly string[]): Promise<void> {
  for (const given of names) {
    const [name = '', ...roles] = given.split(':');
    accepted(await addAgent(context, { name, roles }));
  }
}

export async function idOf(context: HostContext, name: string): Promise<AgentId> {
  return accepted(await actingAgent(context, name));
}

/** Pairs a host that has told its agents, or has not (null). */
export async function addPeer(
  context: HostContext,
  hostName: string,
  agents: DirectoryAgent[] | null = [],
  changes: Partial<PeerRow> = {},
): Promise<PeerRow> {
  const publicKey = signerFromSeed(randomBytes(32)).publicKey;
  const { enc_pub: encPub } = await generateSealKey();
  const nowMs = context.nowMs();
  const peer: PeerRow = {
    peerId: randomBytes(16).toString('hex') as PeerId,
    hostName: hostName as HostName,
    keys: [{ publicKey, pinnedAtMs: nowMs, retiredAtMs: null }],
    encKey: { hostPubkey: publicKey, encPub, at: nowMs, sig: '' },
    address: null,
    pairedAtMs: nowMs,
    unpairedAtMs: null,
    reachedAtMs: null,
    lanFailures: 0,
    pinnedOurKey: context.identity().signer.publicKey,
    directory: agents && { agents, fetchedAtMs: nowMs },
    hasConfirmed: false,
    ...changes,
  };
  await context.store.transact((tx) => tx.put('peer', [peer.peerId], peer));
  return peer;
}

/** A session that is heard of now. */
export async function addSession(context: HostContext, name: string, given: Partial<SessionRow> = {}): Promise<void> {
  const agentId = await idOf(context, name);
  const nowMs = context.nowMs();
  const times = { registeredAtMs: nowMs, seenAtMs: nowMs, endedAtMs: null };
  await context.store.transact((tx) =>
    tx.put('session', [agentId, 's1'], {
      agentId,
      sessionId: 's1',
      wake: [],
      process: null,
      woken: null,
      ...times,
      ...given,
    }),
  );
}

/** Sends a plain message; whatever of it is given takes the place of a default. */
export async function send(context: HostContext, from: string, given: object): Promise<SendResult | Refusal> {
  const input = parseInput(SendInput, { subject: 'a subject', body: 'a body', ...given });
  return isRefusal(input) ? input : sendMail(context, await idOf(context, from), input);
}

/** Every table and row, for a comparison of before and after. */
export async function storedRows(context: TestContext): Promise<string[]> {
  const rows: string[] = [];
  for await (const run of context.store.pairs()) {
    for (const [key, value] of run) rows.push(`${key.toString('hex')} ${value.toString('hex')}`);
  }
  return rows;
}
