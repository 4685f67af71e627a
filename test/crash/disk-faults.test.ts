/**
 * A relay that serves while its disk fails: a call gets EIO or ENOSPC, one after another, or the disk is full. What
 * could not be written is accepted by nobody, the relay ends with a sentence, and the next start has all that was
 * accepted.
 */
import { execFile } from 'node:child_process';
import { cp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { RELAY_KEY_FILE } from '../../src/relay/store/relay-key.ts';
import { verified } from '../support/audits.ts';
import { stillClock } from '../support/broken-operations.ts';
import { type Promises, RELAY_KEY_TEXT, livedStore } from '../support/mutated-store.ts';
import { hasOwnDisks } from '../support/own-disks.ts';
import { type Ended, type PosteProcess, type StartDocument, poste, serveArgs } from '../support/poste-process.ts';
import { NEEDS } from '../support/programs.ts';
import { EXIT, STACK, saidOf } from '../support/relay-command.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { ServedMail } from './served-mail.ts';
import { startOn } from '../support/served-promises.ts';
import { type Fault, faultsOf, faultyPoste, neededStrace, recordedPoste } from '../support/strace.ts';
import { atTestEnd } from '../support/test-end.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { TIMES, tried } from '../support/thorough.ts';

/** So many of each kind are tried; the torture run tries every one. */
const TRIED_MAX = TIMES > 1 ? Infinity : 4;
const LANES = 3;
const TIMEOUT_MS = 120_000 * TIMES;
const SEED = Number(process.env['POSTE_TORTURE_SEED'] ?? 4_711);
const PUSHES = 4;

/** Without a floor, so that pushes are written as long as the disk takes them. */
const argsOf = (store: string): string[] => [
  ...serveArgs(store, ['--disk-floor', '0', '--mail-budget', '1000']),
  '--json',
];

async function template(): Promise<{ store: string; promises: Promises }> {
  const store = join(await temporaryFolder(), 'store');
  const promises = await livedStore(store, 'its log whole');
  await writeFile(join(store, RELAY_KEY_FILE), RELAY_KEY_TEXT, { mode: 0o600 });
  return { store, promises };
}

/** Mail through the relay, as far as it goes; `undefined` when the relay did not come to serve. */
async function mailThrough(process: PosteProcess, promises: Promises): Promise<ServedMail | undefined> {
  try {
    await process.printed('}\n');
  } catch {
    return undefined;
  }
  const mail = new ServedMail((JSON.parse(process.stdout) as StartDocument).url, promises);
  for (let number = 0; number < PUSHES; number++) {
    await mail.push(`through-${number}`);
    await mail.pullAndAck();
  }
  return mail;
}

async function endOf(process: PosteProcess): Promise<Ended> {
  if (process.isRunning) process.signal('SIGTERM');
  return process.ended();
}

/**
 * Everything that was promised is there, and the store verifies. A log that could not be opened is passed over, and its
 * loss told.
 */
async function expectKept(store: string, promises: Promises, mayBegin: boolean): Promise<void> {
  const start = await startOn(store, promises, { begun: mayBegin });
  expect(start).toMatchObject({ type: 'served', isMarked: false, ...(!mayBegin && { epoch: 'same' }) });
  expect((await verified(store)).findings).toEqual([]);
}

function outcomeOf(ended: Ended, mail: ServedMail | undefined): string {
  const { code, signal, stderr } = ended;
  expect(saidOf(ended)).not.toMatch(STACK);
  expect(signal).toBeNull();
  // Or else nothing that was asked for needed the call.
  expect(code === EXIT.ok ? mail?.unanswered : 0).toBe(0);
  if (code === EXIT.ok) return 'harmless';
  expect(stderr).toMatch(/^\{"code":"[A-Z_]+","message":"[^\n]+\}$|^\{"level":50[^\n]+\}$/m);
  return mail ? 'ended while it served' : 'refused at the start';
}

test('a call that gets EIO or ENOSPC, whichever it is, acknowledges nothing that is not there', {
  timeout: TIMEOUT_MS,
}, async (context) => {
  const strace = neededStrace(context);
  const { store, promises } = await template();
  const environment = stillClock(promises.nowMs);
  const recordedIn = join(await temporaryFolder(), 'store');
  await cp(store, recordedIn, { recursive: true });
  const { process, recorded } = await recordedPoste(strace, argsOf(recordedIn), environment);
  const undisturbed = await mailThrough(process, promises);
  expect(await endOf(process)).toMatchObject({ code: EXIT.ok });
  expect([undisturbed?.accepted, undisturbed?.unanswered]).toEqual([PUSHES, 0]);
  const recording = await recorded(recordedIn);
  await expectKept(recordedIn, undisturbed?.promises ?? promises, false);

  const random = new SeededRandom(SEED);
  const left = (['EIO', 'ENOSPC'] as const).flatMap((what) => {
    const faults = faultsOf(recording, what);
    return faults.length <= TRIED_MAX ? faults : Array.from({ length: TRIED_MAX }, () => random.pick(faults));
  });
  const [count, outcomes, wrong] = [left.length, new Map<string, number>(), [] as string[]];
  const failing = async (folder: string, fault: Fault): Promise<string> => {
    await rm(folder, { recursive: true, force: true });
    await cp(store, folder, { recursive: true });
    const faulty = faultyPoste(strace, argsOf(folder), environment, { folder, recording }, fault);
    const mail = await mailThrough(faulty, promises);
    const outcome = outcomeOf(await endOf(faulty), mail);
    await expectKept(folder, mail?.promises ?? promises, fault.call === 'openat');
    return outcome;
  };
  const lane = async (): Promise<void> => {
    const folder = join(await temporaryFolder(), 'store');
    for (let fault = left.shift(); fault; fault = left.shift()) {
      try {
        const outcome = await failing(folder, fault);
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      } catch (error) {
        wrong.push(`${fault.what} at ${fault.call} ${fault.at}: ${(error as Error).message}`);
      }
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  expect(wrong).toEqual([]);
  const counts = [...outcomes].map(([outcome, times]) => `${outcome} ${times}`).join(', ');
  tried(
    `a relay that serves: ${count} of ${2 * faultsOf(recording, 'EIO').length} places of EIO and ENOSPC: ${counts}`,
  );
});

test('a disk that runs full ends the relay, and with room again everything that was accepted is there', async ({
  skip,
}) => {
  if (!(await hasOwnDisks())) skip(`${NEEDS}root and a system that mounts disks`);
  const { store, promises } = await template();
  const disk = await temporaryFolder();
  await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]);
  atTestEnd(async () => void (await promisify(execFile)('umount', ['-l', disk])));
  const full = join(disk, 'store');
  await cp(store, full, { recursive: true });
  const relay = poste(argsOf(full), stillClock(promises.nowMs));
  await relay.printed('}\n');
  const mail = new ServedMail((JSON.parse(relay.stdout) as StartDocument).url, promises);
  for (let number = 0; mail.unanswered === 0 && number < 1000; number++) await mail.push(`full-${number}`, 20_000);
  expect(mail.accepted).toBeGreaterThan(5);
  const ended = await relay.ended();
  expect(ended.code).toBe(EXIT.failure);
  expect(saidOf(ended)).not.toMatch(STACK);
  expect(saidOf(ended)).toContain('make room on the disk, and start the relay again');
  await promisify(execFile)('mount', ['-o', 'remount,size=64m', disk]);
  await expectKept(full, mail.promises, false);
  tried(`a disk of 2 MB that ran full: ${mail.accepted} items accepted before, all there`);
});
