/** Agents, peers and sessions for tests of the host's mail. */
import { randomBytes } from 'node:crypto';
import { signerFromSeed } from '../../src/protocol/ed25519.ts';
import type { HostName } from '../../src/protocol/names.ts';
import { type Refusal, isRefusal } from '../../src/host/core/refusal.ts';
import type { AgentId, DirectoryAgent, PeerId, PeerRow } from '../../src/host/core/rows.ts';
import { SendInput, type SendResult } from '../../src/host/documents/mail.ts';
import { parseInput } from '../../src/host/documents/parse-input.ts';
import { actingAgent } from '../../src/host/office/acting-agent.ts';
import { addAgent } from '../../src/host/office/agents.ts';
import type { Office } from '../../src/host/office/office.ts';
import { generateSealKey } from '../../src/host/office/sealing.ts';
import { sendMail } from '../../src/host/office/send.ts';
import { type OfficeOptions, type TestOffice, testOffice } from './test-office.ts';

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

/** An office with agents of these names, some with a role: `tester:qa`. */
export async function officeOf(names: readonly string[], options: OfficeOptions = {}): Promise<TestOffice> {
  const office = await testOffice(options);
  await addAgents(office, names);
  return office;
}

export async function addAgents(office: Office, names: readonly string[]): Promise<void> {
  for (const given of names) {
    const [name = '', ...roles] = given.split(':');
    accepted(await addAgent(office, { name, roles }));
  }
}

export async function idOf(office: Office, name: string): Promise<AgentId> {
  return accepted(await actingAgent(office, name));
}

/** Pairs a host that has told its agents, or has not (null). */
export async function addPeer(
  office: Office,
  hostName: string,
  agents: DirectoryAgent[] | null = [],
  changes: Partial<PeerRow> = {},
): Promise<PeerRow> {
  const publicKey = signerFromSeed(randomBytes(32)).publicKey;
  const { enc_pub: encPub } = await generateSealKey();
  const nowMs = office.nowMs();
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
    pinnedOurKey: office.identity().signer.publicKey,
    directory: agents && { agents, fetchedAtMs: nowMs },
    hasConfirmed: false,
    ...changes,
  };
  await office.store.transact((tx) => tx.put('peer', [peer.peerId], peer));
  return peer;
}

/** A session that is heard of now. */
export async function addSession(office: Office, name: string): Promise<void> {
  const agentId = await idOf(office, name);
  const nowMs = office.nowMs();
  const times = { registeredAtMs: nowMs, seenAtMs: nowMs, endedAtMs: null };
  await office.store.transact((tx) =>
    tx.put('session', [agentId, 's1'], { agentId, sessionId: 's1', wake: [], process: null, woken: null, ...times }),
  );
}

/** Sends a plain message; whatever of it is given takes the place of a default. */
export async function send(office: Office, from: string, given: object): Promise<SendResult | Refusal> {
  const input = parseInput(SendInput, { subject: 'a subject', body: 'a body', ...given });
  return isRefusal(input) ? input : sendMail(office, await idOf(office, from), input);
}

/** Every table and row, for a comparison of before and after. */
export async function storedRows(office: TestOffice): Promise<string[]> {
  const rows: string[] = [];
  for await (const run of office.store.pairs()) {
    for (const [key, value] of run) rows.push(`${key.toString('hex')} ${value.toString('hex')}`);
  }
  return rows;
}
