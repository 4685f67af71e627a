/** An office over a real store in a temporary folder: its clock is set by the test, its dice repeat. */
import { onTestFinished } from 'vitest';
import { type Signer, signerFromSeed } from '../../src/protocol/ed25519.ts';
import type { HostName } from '../../src/protocol/names.ts';
import { Bell } from '../../src/host/office/bell.ts';
import type { Happening, Office } from '../../src/host/office/office.ts';
import type { HostStore } from '../../src/host/store/host-store.ts';
import { createHostStore } from '../../src/host/store/open.ts';
import { SeededRandom } from './seeded-random.ts';
import { disposableFolder } from './temporary-folder.ts';

export const OFFICE_START_MS = 1_763_675_303_000;

export interface TestOffice extends Office {
  store: HostStore;
  /** Everything that was told, in order. */
  told: Happening[];
  clock: { nowMs: number };
  folder: string;
}

export interface OfficeOptions {
  hostName?: string;
  seed?: number;
}

/** Call it inside a test: the store is closed and removed when the test is over. */
export async function testOffice(options: OfficeOptions = {}): Promise<TestOffice> {
  const { office, close } = await disposableOffice(options);
  onTestFinished(close);
  return office;
}

/** For tests that need many: the caller closes each. */
export async function disposableOffice({ hostName = 'here', seed = 1 }: OfficeOptions = {}): Promise<{
  office: TestOffice;
  close: () => Promise<void>;
}> {
  const { folder, remove } = await disposableFolder();
  const failures: unknown[] = [];
  const store = await createHostStore(folder, (error) => failures.push(error));
  const random = new SeededRandom(seed);
  const clock = { nowMs: OFFICE_START_MS };
  const told: Happening[] = [];
  const bell = new Bell();
  bell.listen((happening) => told.push(happening));
  const signer: Signer = signerFromSeed(random.bytes(32));
  const sealKey = { encPub: random.bytes(32).toString('base64'), secret: '', sinceMs: clock.nowMs, retiredAtMs: null };
  const office: TestOffice = {
    store,
    told,
    clock,
    folder,
    identity: () => ({ hostName: hostName as HostName, signer, sealKey }),
    nowMs: () => clock.nowMs,
    monotonicMs: () => clock.nowMs,
    randomBytes: (count) => random.bytes(count),
    tell: (happening) => bell.tell(happening),
    listen: (listener) => bell.listen(listener),
    log: () => {},
  };
  const close = async (): Promise<void> => {
    await store.close();
    await remove();
    if (failures.length > 0) throw failures[0];
  };
  return { office, close };
}
