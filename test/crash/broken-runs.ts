/**
 * One operation of an operator (broken-operations.ts) under faults of the system: recorded once without any, and then
 * again with one fault after another.
 */
import { cp, readdir, rm, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type Operation, type Template, stillClock } from '../support/broken-operations.ts';
import { type Ended, poste } from '../support/poste-process.ts';
import { EXIT, STACK, saidOf } from '../support/relay-command.ts';
import { FAULT_KINDS, type Fault, type Recording, faultsOf, faultyPoste, recordedPoste } from '../support/strace.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

type Outcome = 'killed' | 'refused' | 'done' | 'found damaged';

/** The names of temporary files of a second time. */
const AGAIN = 100;

/** LevelDB had not finished it in a former database, which stays aside as it was. */
const OF_FORMER = /\.replaced-[^/]+\/\d+\.dbtmp$/;

/** The names below a folder, without numbers. */
async function shapeOf(folder: string): Promise<string[]> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => !OF_FORMER.test(name));
  return [...new Set(names.map((name) => name.replaceAll(/\d+/g, '#')))].toSorted();
}

/** What a killed writer left is removed by a later one when nobody has written to it for an hour. */
async function outdateParts(folder: string): Promise<void> {
  for (const name of await readdir(folder, { recursive: true })) {
    const [path, then] = [join(folder, name), new Date(Date.now() - 2 * 3_600_000)];
    if (/\.part-/.test(name)) await utimes(path, then, then);
  }
}

function expectWell({ code, signal, stderr }: Ended): void {
  expect([code, signal, stderr.match(/^poste:.*/m)?.[0]]).toEqual([EXIT.ok, null, undefined]);
}

async function expectDone({ isDone }: Template, folder: string): Promise<void> {
  expect(await isDone(folder)).toBe(true);
}

/** Nothing but what the operation leaves when nothing happens. */
async function expectNothingLeft(folder: string, shape: ReadonlySet<string>): Promise<void> {
  expect((await shapeOf(folder)).filter((name) => !shape.has(name))).toEqual([]);
}

export class Broken {
  readonly #strace: string;
  readonly #operation: Operation;
  readonly #template: Template;
  readonly #recording: Recording;
  readonly #shape: ReadonlySet<string>;

  private constructor(strace: string, operation: Operation, template: Template, recording: Recording, shape: string[]) {
    this.#strace = strace;
    this.#operation = operation;
    this.#template = template;
    this.#recording = recording;
    this.#shape = new Set(shape);
  }

  /** Does the operation once, and keeps what calls it made. */
  static async record(strace: string, operation: Operation): Promise<Broken> {
    const template = await operation.prepare(join(await temporaryFolder(), 'template'));
    const folder = join(await temporaryFolder(), 'recorded');
    await cp(template.folder, folder, { recursive: true });
    const { process, recorded } = await recordedPoste(strace, operation.args(folder), stillClock(template.nowMs));
    expectWell(await operation.ended(process));
    const recording = await recorded(folder);
    await expectDone(template, folder);
    await template.keeps(folder);
    // A second time leaves the first one's former store beside.
    const again = poste(operation.args(folder), stillClock(template.nowMs + 60_000, AGAIN));
    expectWell(await operation.ended(again));
    await template.keeps(folder);
    return new Broken(strace, operation, template, recording, await shapeOf(folder));
  }

  get faults(): Fault[] {
    return FAULT_KINDS.flatMap((what) => faultsOf(this.#recording, what));
  }

  /** Throws when the fault does harm. Answers how the process ended. */
  async fails(folder: string, fault: Fault, looksBetween: boolean): Promise<Outcome> {
    const { args, ended } = this.#operation;
    const { nowMs, keeps } = this.#template;
    await rm(folder, { recursive: true, force: true });
    await cp(this.#template.folder, folder, { recursive: true });
    const place = { folder, recording: this.#recording };
    const broken = await ended(faultyPoste(this.#strace, args(folder), stillClock(nowMs), place, fault));
    const outcome = outcomeOf(broken, fault);
    if (outcome === 'done') await expectDone(this.#template, folder);
    // LevelDB passes over a log that it cannot open; the position shows it, and a new epoch brings back what was lost.
    const mayBegin = fault.what !== 'kill' && fault.call === 'openat';
    // Where that log held the whole store, it is refused instead.
    if (mayBegin && /damaged .*restore a backup/.test(broken.stderr)) return 'found damaged';
    if (looksBetween) await keeps(folder, mayBegin);
    await outdateParts(folder);
    expectWell(await ended(poste(args(folder), stillClock(nowMs + 60_000, AGAIN))));
    await expectDone(this.#template, folder);
    await keeps(folder, mayBegin);
    await expectNothingLeft(folder, this.#shape);
    return outcome;
  }
}

function outcomeOf(ended: Ended, { what }: Fault): Outcome {
  const { code, signal, stderr } = ended;
  expect(saidOf(ended)).not.toMatch(STACK);
  if (signal !== null) {
    expect([what, signal]).toEqual(['kill', 'SIGKILL']);
    return 'killed';
  }
  // A relay that cannot prune logs that, serves on and tries again within the hour.
  if (code === EXIT.ok) return stderr.includes('could not be pruned') ? 'refused' : 'done';
  // With --json an error is a document.
  expect(stderr).toMatch(/^poste: [^\n]+\.$|^\{"code":"[A-Z_]+","message":"[^\n]+\}$/m);
  return 'refused';
}
