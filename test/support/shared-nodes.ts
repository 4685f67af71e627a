/**
 * Relays in this process that share a log in memory: started, following, taking the lead, and with a log that fails.
 */
import { expect, onTestFinished } from 'vitest';
import { LEASE_MS } from '../../src/relay/shared-log/leadership.ts';
import { LOOK_EVERY_MS } from '../../src/relay/shared-log/node.ts';
import type { SharedLogOptions } from '../../src/relay/shared-log/node-options.ts';
import type { SharedLog } from '../../src/relay/shared-log/shared-log.ts';
import type { TestHost } from './hosts.ts';
import { HttpRelay, type HttpRelayChanges } from './http-relay.ts';
import { MemoryLogServer } from './memory-log.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { NOON_MS } from './test-clock.ts';
import { lookedAtLater } from './deferred.ts';

export function newServer(): MemoryLogServer {
  const server = new MemoryLogServer();
  server.nowMs = () => NOON_MS;
  return server;
}

export function sharing(log: SharedLog, changes: Partial<SharedLogOptions> = {}): HttpRelayChanges {
  return { sharedLog: { log, durability: 'standby', leaseMs: LEASE_MS, acceptsSettings: false, ...changes } };
}

/** A node of the log on `server`, not started. */
export async function node(server: MemoryLogServer, changes: HttpRelayChanges = {}): Promise<HttpRelay> {
  const relay = new HttpRelay(await temporaryFolder(), 'node', { ...sharing(server.client()), ...changes });
  onTestFinished(() => relay.relay?.stop());
  return relay;
}

export async function started(server: MemoryLogServer, changes: HttpRelayChanges = {}): Promise<HttpRelay> {
  const relay = await node(server, changes);
  await relay.start();
  return relay;
}

/** A new log, and its first node, at which these hosts are enrolled. */
export async function enrolledAtNew(...hosts: TestHost[]): Promise<{ server: MemoryLogServer; relay: HttpRelay }> {
  const server = newServer();
  const relay = await started(server);
  await relay.enrol(...hosts);
  return { server, relay };
}

/** Starts a node of the log on `server` that follows; `passLease` lets time pass for it until it takes the lead. */
export async function startFollowing(
  relay: HttpRelay,
  server: MemoryLogServer,
): Promise<{ leads: Promise<void>; passLease: () => Promise<void> }> {
  const leads = lookedAtLater(relay.start());
  // What keeps the node from starting is said here, and not that nothing was logged.
  await Promise.race([leads.then(() => follows(relay)), follows(relay)]);
  const before = server.row?.term;
  const passLease = async (): Promise<void> => {
    while (server.row?.term === before) {
      // No time passes while it reads or writes: its clock would be too far from the server's by then, for it to lead.
      await Promise.race([leads, relay.timers.begun(LOOK_EVERY_MS)]);
      relay.clock.move(LOOK_EVERY_MS);
      relay.timers.pass(LOOK_EVERY_MS);
    }
    await leads;
  };
  return { leads, passLease };
}

export async function follows(relay: HttpRelay): Promise<void> {
  await expect.poll(() => relay.logged.map(({ message }) => message)).toContain('this node follows');
}

export type Faults = Partial<Record<keyof SharedLog, (...given: unknown[]) => Promise<void>>>;

/** A log of which single calls can be made to fail or to wait. */
export function faulty(log: SharedLog): { log: SharedLog; fail: Faults } {
  const fail: Faults = {};
  const proxy = new Proxy(log, {
    get: (target, name: keyof SharedLog) => {
      const member = target[name];
      if (typeof member !== 'function') return member;
      return async (...given: never[]) => {
        await fail[name]?.(...given);
        return (member as (...args: never[]) => Promise<unknown>).apply(target, given);
      };
    },
  });
  return { log: proxy, fail };
}

/** As `enrolledAtNew`; single calls of the log of that node can be made to fail. */
export async function failingAtNew(
  ...hosts: TestHost[]
): Promise<{ server: MemoryLogServer; relay: HttpRelay; fail: Faults }> {
  const server = newServer();
  const { log, fail } = faulty(server.client());
  const relay = await started(server, sharing(log));
  await relay.enrol(...hosts);
  return { server, relay, fail };
}

export function rejecting(error: Error): () => Promise<void> {
  return async () => {
    throw error;
  };
}

/** A call that waits until the log is closed. */
export function waiting(fail: Faults, error: Error): () => Promise<void> {
  return () =>
    new Promise((_resolve, reject) => {
      fail.close = async () => reject(error);
    });
}

/** Lets time pass for `relay` until `isSo`. */
export async function passUntil(relay: HttpRelay, isSo: () => boolean, ms = 100): Promise<void> {
  await expect
    .poll(() => {
      relay.timers.pass(ms);
      return isSo();
    })
    .toBe(true);
}
