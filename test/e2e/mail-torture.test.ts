/**
 * Three hosts with real daemons, a LAN and one or two relays between them, and faults of every kind: every accepted
 * message arrives exactly once or its sender is alerted, no receipt says more than what happened, and no doorbell
 * claims a wake that was none.
 *
 * A run follows from its seed. Up to ten of them use one world, one after another. `npm run torture -- --only mail`
 * does many, and `--only two-relays` as many with two relays; `POSTE_TORTURE_SEED` repeats one in a world of its own,
 * and with `POSTE_TORTURE_RUNS` it is the first of so many.
 */
import { availableParallelism } from 'node:os';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunOutcome, runMail } from '../support/mail-torture/run.ts';
import { AGENTS } from '../support/mail-torture/post-host.ts';
import { HOSTS, MailWorld } from '../support/mail-torture/world.ts';
import { makePairedStores } from '../support/paired-stores.ts';
import { type Patch, patchedProgram } from '../support/patched-program.ts';
import { POSTGRES, findProgram } from '../support/programs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { besideOthers, withOwnEnd } from '../support/test-end.ts';
import { IS_THOROUGH, tried } from '../support/thorough.ts';

const { POSTE_TORTURE_RUNS: RUNS, POSTE_TORTURE_SEED: SEED, POSTE_TORTURE_RELAYS: RELAYS = '1' } = process.env;
const IS_TORTURE = RUNS !== undefined || SEED !== undefined;
const FIRST_SEED = Number(SEED ?? 1);
const COUNT = Number(RUNS ?? (SEED === undefined ? 4 : 1));
const RUNS_IN_A_WORLD = 10;
/** The relays of one in so many worlds share a log in PostgreSQL. */
const SHARED_EVERY = 5;
const RUN_WITHIN_MS = 600_000;

/** Worlds wait much of their time. */
const SIDE_BY_SIDE = availableParallelism() + 1;
/** A control must be found in so many runs at most. */
const CONTROL_SEEDS = 5;

interface Control {
  patch: Patch;
  isFound: RegExp;
  /** It is one of hosts with so many relays alone. */
  relays?: number;
  /** 1 when absent. */
  firstSeed?: number;
}

/** The part that is left out of a copy of the program, and the finding that must follow. */
const CONTROLS: Readonly<Record<string, Control>> = {
  'mail that is accepted and never queued': {
    patch: {
      file: 'host/mail/post.ts',
      from: '    await queueEnvelope(tx,',
      to: "    if (!message.ref.endsWith('0')) await queueEnvelope(tx,",
    },
    isFound: /was lost in silence/,
  },
  'a receipt that says read of what was only delivered': {
    patch: {
      file: 'host/outbox/outgoing-items.ts',
      from: 'nextReceipt(last, state, clockOf(tx, context))',
      to: "nextReceipt(last, state === 'delivered' ? 'read' : state, clockOf(tx, context))",
    },
    isFound: /is said to be read, and nobody did that/,
  },
  'a doorbell that counts as heard when a program took it': {
    patch: {
      file: 'host/wake/wake-methods.ts',
      from: 'if (await ring.isProven(windowMs, signal)) {',
      to: "if (outcome === 'given' || (await ring.isProven(windowMs, signal))) {",
    },
    isFound: /and nothing did|nobody did that|never was/,
  },
  'mail that is taken again when it comes again': {
    patch: {
      file: 'host/inbound/judge.ts',
      from: "const arrival = reader.get('arrival', peer.peerId, envelope.id);",
      to: 'const arrival = undefined;',
    },
    isFound: /arrived \d+ times|has seed .* \d+ times/,
  },
  'a relay that is down and keeps the mail of its peers': {
    patch: {
      file: 'host/core/relay-lanes.ts',
      from: 'if (!isOnly && (isDown || isRefused ||',
      to: 'if (!isOnly && (isRefused ||',
    },
    isFound: /while a relay is down/,
    relays: 2,
    // It ends without the first relay and without the LAN.
    firstSeed: 5,
  },
};

interface Block {
  seeds: number[];
  relays: number;
}

/** The seeds of each world. */
const blocks: Block[] = [];
for (let first = FIRST_SEED; first < FIRST_SEED + COUNT; first += RUNS_IN_A_WORLD) {
  const length = Math.min(RUNS_IN_A_WORLD, FIRST_SEED + COUNT - first);
  blocks.push({ seeds: Array.from({ length }, (_, at) => first + at), relays: Number(RELAYS) });
}
if (IS_THOROUGH && !IS_TORTURE) blocks.push({ seeds: [1, 2], relays: 2 });

let paired: ReturnType<typeof makePairedStores>;
const outcomes: RunOutcome[] = [];
/** No seed may be left out: so many were to be run in worlds. */
let wanted = 0;

beforeAll(() => {
  paired = makePairedStores(HOSTS, AGENTS[0]);
});

afterAll(async () => {
  await (await paired).remove();
  if (outcomes.length !== wanted) throw new Error(`${outcomes.length} runs of ${wanted} were run`);
  const sum = (count: (outcome: RunOutcome) => number): number => outcomes.reduce((all, one) => all + count(one), 0);
  const events = sum(({ schedule }) => schedule.length);
  tried(
    `${outcomes.length} runs of mail: ${sum(({ accepted }) => accepted)} messages accepted, ` +
      `${sum(({ alerted }) => alerted)} with an alert, ${events} faults` +
      secondCopies(sum(({ takenByTwo }) => takenByTwo)),
  );
});

/** Every fifth world has relays that share a log, where PostgreSQL is there; a seed has the same kind each time. */
function sharedLog(seed: number): string | undefined {
  const isShared = Math.floor((seed - 1) / RUNS_IN_A_WORLD) % SHARED_EVERY === SHARED_EVERY - 1;
  return isShared ? findProgram(POSTGRES) : undefined;
}

const lanes = Array.from({ length: Math.min(SIDE_BY_SIDE, blocks.length) }, (_, at) => at + 1);

test.concurrent.for(lanes)(
  'lane %i: what is accepted arrives exactly once, or its sender is alerted',
  { timeout: RUN_WITHIN_MS * COUNT },
  besideOthers(async () => {
    const faults: string[] = [];
    for (let block = blocks.shift(); block; block = blocks.shift()) {
      const { seeds, relays } = block;
      wanted += seeds.length;
      while (seeds.length > 0) {
        const [first = 0] = seeds;
        const ended = withOwnEnd(() => inOneWorld(seeds, relays));
        faults.push(...(await ended.catch((error: unknown) => [`the world of seed ${first} ended: ${String(error)}`])));
      }
    }
    expect(faults).toEqual([]);
  }),
);

for (const [what, { patch, isFound, relays = Number(RELAYS), firstSeed = 1 }] of Object.entries(CONTROLS)) {
  const isTried = RUNS !== undefined && relays === Number(RELAYS);
  test.runIf(isTried)(`it is found: ${what}`, { timeout: RUN_WITHIN_MS * CONTROL_SEEDS }, async () => {
    const main = await patchedProgram(await temporaryFolder(), [patch]);
    const found: string[] = [];
    for (let seed = firstSeed; seed < firstSeed + CONTROL_SEEDS && found.length === 0; seed++) {
      await withOwnEnd(async () => {
        const world = await MailWorld.open({ paired: (await paired).folder, seed, relays, main });
        const { faults } = await runMail(world, seed);
        found.push(...faults.filter((fault) => isFound.test(fault)));
      });
    }
    expect(found).not.toEqual([]);
    say(`found: ${what}: ${found[0]}`);
  });
}

/** Takes from `left` what is run: all of it, or until the world is of no use any more. */
async function inOneWorld(left: number[], relays: number): Promise<string[]> {
  const [first = 0] = left;
  const before: string[] = [];
  let world: MailWorld | undefined;
  for (let seed = left.shift(); seed !== undefined; seed = left.shift()) {
    const startedMs = performance.now();
    const done: string[] = [];
    const outcome = await (async () => {
      const postgres = relays === 1 ? sharedLog(first) : undefined;
      world ??= await MailWorld.open({ paired: (await paired).folder, seed: first, relays, postgres });
      return runMail(world, seed, done);
    })().catch((error: unknown) => failed(error, done));
    outcomes.push(outcome);
    const { faults, schedule, accepted, takenByTwo } = outcome;
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    say(`seed ${seed}: ${accepted} accepted, ${schedule.length} faults${secondCopies(takenByTwo)}, ${seconds} s`);
    if (faults.length > 0) {
      const told = [`seed ${seed}: ${again(`POSTE_TORTURE_SEED=${seed}`)}`, ...faults, `after: ${schedule.join('; ')}`];
      if (before.length > 0) {
        const inItsWorld = again(`POSTE_TORTURE_SEED=${first} POSTE_TORTURE_RUNS=${before.length + 1}`);
        told.push(`in its world, ${inItsWorld}`, ...before);
      }
      say(told.join('\n'));
      return told;
    }
    if (outcome.isSpent) return [];
    before.push(`before it, seed ${seed}: ${schedule.join('; ')}`);
  }
  return [];
}

function again(run: string): string {
  return `repeat it with: ${run} npm run torture -- --only ${RELAYS === '1' ? 'mail' : 'two-relays'}`;
}

function secondCopies(count: number): string {
  return count === 0 ? '' : `, ${count} copies at a second relay`;
}

/** A run that could not go on to its end. */
function failed(error: unknown, schedule: string[]): RunOutcome {
  return { faults: [String(error)], schedule, accepted: 0, alerted: 0, takenByTwo: 0, isSpent: true };
}

function say(line: string): void {
  if (IS_TORTURE) process.stderr.write(`${line}\n`);
}
