/** A host over a real store in a temporary folder: its clock is set by the test, its dice repeat. */
import { RETRY_TIMING } from '../../src/host/core/outbox-event.ts';
import { onTestFinished } from 'vitest';
import { type Signer, signerFromSeed } from '../../src/protocol/ed25519.ts';
import type { HostName } from '../../src/protocol/names.ts';
import { type HostContext, EventBus, type HostEvent } from '../../src/host/base/context.ts';
import { WaitingCalls } from '../../src/host/base/waiting-calls.ts';
import type { Identity } from '../../src/host/core/rows.ts';
import type { HostStore } from '../../src/host/store/host-store.ts';
import { createHostStore } from '../../src/host/store/open.ts';
import { SeededRandom } from './seeded-random.ts';
import { disposableFolder } from './temporary-folder.ts';
import { onEvent } from './on-event.ts';

export const CONTEXT_START_MS = 1_763_675_303_000;

export interface TestContext extends HostContext {
  store: HostStore;
  /** Everything that was told, in order. */
  told: HostEvent[];
  clock: { nowMs: number };
  folder: string;
}

export interface ContextOptions {
  hostName?: string;
  seed?: number;
}

/** Call it inside a test: the store is closed and removed when the test is over. */
export async function testContext(options: ContextOptions = {}): Promise<TestContext> {
  const { context, close } = await disposableContext(options);
  onTestFinished(close);
  return context;
}

/** A test chooses these parts of a host's context. */
export interface ContextParts {
  identity: () => Identity;
  nowMs: () => number;
  /** As the other one, unless it is given. */
  monotonicMs?: () => number;
  randomBytes: (count: number) => Buffer;
  bus: EventBus;
}

/** All of a host's context but its store, which a test may close and open again. */
export function contextWithoutStore({ bus, ...given }: ContextParts): Omit<HostContext, 'store'> {
  return {
    momentMs: (atMs) => atMs,
    monotonicMs: given.nowMs,
    ...given,
    retry: RETRY_TIMING,
    emit: (event) => bus.emit(event),
    subscribe: (name, handlers) => bus.subscribe(name, handlers),
    waits: new WaitingCalls(),
    log: () => {},
  };
}

/** For tests that need many: the caller closes each. */
export async function disposableContext({ hostName = 'here', seed = 1 }: ContextOptions = {}): Promise<{
  context: TestContext;
  close: () => Promise<void>;
}> {
  const { folder, remove } = await disposableFolder();
  const failures: unknown[] = [];
  const store = await createHostStore(folder, (error) => failures.push(error));
  const random = new SeededRandom(seed);
  const clock = { nowMs: CONTEXT_START_MS };
  const told: HostEvent[] = [];
  const events = new EventBus();
  onEvent(events, (event) => told.push(event));
  const signer: Signer = signerFromSeed(random.bytes(32));
  const sealKey = { encPub: random.bytes(32).toString('base64'), secret: '', sinceMs: clock.nowMs, retiredAtMs: null };
  const identity: Identity = { hostName: hostName as HostName, signer, sealKey };
  const parts = contextWithoutStore({
    identity: () => identity,
    nowMs: () => clock.nowMs,
    randomBytes: (count) => random.bytes(count),
    bus: events,
  });
  const context: TestContext = { ...parts, store, told, clock, folder };
  const close = async (): Promise<void> => {
    await store.close();
    await remove();
    if (failures.length > 0) throw failures[0];
  };
  return { context, close };
}
