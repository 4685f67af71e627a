/**
 * The rules by which hosts trust a relay (host/core: looks and notes of peers), in random histories of a relay that is
 * honest, careless or lies, with real Merkle trees and signatures.
 *
 * Nobody honest is called a liar; each lie that can be caught is caught, and named rightly; no mail is lost where the
 * relay does not mean to lose it; pushing again is bounded.
 */
import { describe, expect, test, vi } from 'vitest';
import type { EvidenceKind, EvidenceRow } from '../../src/host/core/relay-trust.ts';
import { evidenceDocument } from '../../src/host/outbox/relay-evidence.ts';
import { checkEvidence } from '../../src/relay/replay/evidence-check.ts';
import { type EvidenceDocument, oracleVerdict } from '../support/evidence-oracle.ts';
import type { Lacking, ModelHost } from '../support/trust/model-host.ts';
import { LIES, type Lie, type World, type WorldKind, playWorld } from '../support/trust/model-worlds.ts';
import { IS_THOROUGH, TIMES, tried } from '../support/thorough.ts';

/**
 * A signature is verified once, and one that was made here not at all: hosts are shown the same notes again and again,
 * and each look has a note of its own.
 */
vi.mock(import('../../src/protocol/ed25519.ts'), async (original) => {
  const real = await original();
  const verdicts = new Map<string, boolean>();
  const verdictOn = (key: string, message: Uint8Array, signature: unknown, judge: () => boolean): boolean => {
    const name = `${key} ${String(signature)} ${Buffer.from(message).toString('latin1')}`;
    const verdict = verdicts.get(name) ?? judge();
    if (verdicts.size > 10_000) verdicts.clear();
    verdicts.set(name, verdict);
    return verdict;
  };
  return {
    ...real,
    signerFromSeed: (seed) => {
      const signer = real.signerFromSeed(seed);
      const { publicKey } = signer;
      const sign = (message: Uint8Array): string => {
        const signature = signer.sign(message);
        verdictOn(publicKey, message, signature, () => true);
        return signature;
      };
      return { ...signer, sign };
    },
    verifySignature: (key, message, signature) =>
      verdictOn(key, message, signature, () => real.verifySignature(key, message, signature)),
  };
});

const HISTORIES = IS_THOROUGH ? 10_000 * TIMES : 300;
/** A fifth each of what lies to nobody; the lies share the rest. */
const OF_HONEST = HISTORIES / 5;
const OF_LIE = HISTORIES / 30;
const FIRST_SEED = 1;

/** What a lie may be called. A row that is not in the log, or a proof that is refused, follows from any of them. */
const NAMES: Readonly<Record<Lie, readonly EvidenceKind[]>> = {
  fork: ['fork', 'withheld', 'unproven'],
  'fork, refused': ['fork', 'withheld', 'unproven', 'not-in-log'],
  shrink: ['fork', 'withheld', 'set-back-unsaid', 'unproven', 'not-in-log'],
  freeze: ['not-in-log', 'withheld'],
  'cut link': ['unproven', 'not-in-log'],
  'epoch fork': ['two-epochs'],
  'left out': ['not-in-log'],
  'fork healed': ['fork', 'withheld', 'set-back-unsaid', 'unproven', 'not-in-log'],
  rewrite: ['fork', 'unproven', 'not-in-log'],
  'see-saw': ['set-back-unsaid', 'withheld', 'unproven', 'not-in-log', 'fork'],
  'old epoch again': ['set-back-unsaid', 'two-epochs', 'unproven', 'not-in-log', 'fork'],
  'copy put back': ['fork', 'set-back-unsaid', 'withheld', 'two-epochs', 'unproven', 'not-in-log'],
};

/** Times that all is pushed again in a history: two hours, and for a push that waited up to a day more. */
const PUSHED_AGAIN_MAX = 8;

const knows = ({ evidence }: ModelHost): boolean => evidence.length > 0;

function isMissed(kind: Lie, { hosts, victims, isToBeSeen }: World): boolean {
  const lied = hosts.filter(({ name }) => victims.includes(name));
  switch (kind) {
    case 'fork':
    case 'fork, refused':
    case 'epoch fork':
      return isToBeSeen && !hosts.every(knows);
    case 'shrink':
    case 'freeze':
    case 'left out':
    case 'see-saw':
      return isToBeSeen && !lied.every(knows);
    case 'rewrite':
    case 'old epoch again':
    case 'cut link':
      return isToBeSeen && !hosts.some(knows);
    // The mail counts: nobody need know.
    case 'fork healed':
      return lied.some((host) => isUndelivered(host, hosts));
    case 'copy put back':
      return false;
  }
}

function isUndelivered({ rows }: ModelHost, hosts: readonly ModelHost[]): boolean {
  const isLost = (id: Parameters<ModelHost['received']['has']>[0]) => hosts.every(({ received }) => !received.has(id));
  return [...rows.values()].some(({ item, isDone }) => item.receiptOf === undefined && !isDone && isLost(item.id));
}

/** Says where a reader who has only the relay's key finds no contradiction in evidence that the host calls signed. */
function unprovenBy(row: EvidenceRow): string[] {
  if (!row.isSigned) return [];
  const document = evidenceDocument(row);
  const verdicts = [
    checkEvidence(document, row.relayPubkey).verdict,
    oracleVerdict(document as EvidenceDocument, row.relayPubkey),
  ];
  return verdicts.every((verdict) => verdict === 'contradict') ? [] : [`evidence of ${row.kind} is ${verdicts.join()}`];
}

/** What is wrong with a world, in words. */
function faultsOf(world: World): string[] {
  const { kind, relay, hosts } = world;
  const lie = LIES.find((one) => one === kind);
  const words = new Set(hosts.flatMap((host) => host.words));
  const faults: string[] = [];
  if (!lie && kind !== 'careless') {
    for (const word of words) faults.push(`an honest relay was said to be: ${word}`);
    if (relay.epochsOfNotes > 0) faults.push('an honest relay began an epoch because of a note');
  }
  if ((!lie || lie === 'copy put back') && hosts.some((host) => isUndelivered(host, hosts)))
    faults.push('mail is lost');
  if (lie && isMissed(lie, world)) faults.push('the lie was not seen');
  if (lie) for (const word of words) if (!NAMES[lie].includes(word)) faults.push(`the lie was called ${word}`);
  for (const { evidence } of hosts) for (const row of evidence) faults.push(...unprovenBy(row));
  const pushedMax = kind === 'copy put back' ? 2 : PUSHED_AGAIN_MAX;
  if (hosts.some(({ pushedAgain }) => pushedAgain > pushedMax)) faults.push('all was pushed again too often');
  return faults;
}

/** The faults of so many histories, each with its seed. */
function play(
  kind: WorldKind,
  count: number,
  lacks?: Lacking,
): { faults: string[]; words: Set<EvidenceKind>; looks: number } {
  const faults: string[] = [];
  const words = new Set<EvidenceKind>();
  let looks = 0;
  for (let seed = FIRST_SEED; seed < FIRST_SEED + count; seed++) {
    const lie = LIES.find((one) => one === kind);
    const world = playWorld(kind, seed, (now) => !lie || !isMissed(lie, now), lacks);
    faults.push(...faultsOf(world).map((fault) => `seed ${seed}: ${fault}`));
    for (const host of world.hosts) {
      looks += host.looks;
      for (const word of host.words) words.add(word);
    }
  }
  tried(`relay trust, ${kind}: ${count} histories`);
  return { faults, words, looks };
}

const LONG_MS = IS_THOROUGH ? 3_600_000 * TIMES : 120_000;

test.each<WorldKind>(['honest', 'lying peer'])(
  'in a world that is %s nobody honest is called a liar, and no mail is lost',
  (kind) => {
    const { faults, looks } = play(kind, OF_HONEST);
    expect(faults).toEqual([]);
    expect(looks).toBeGreaterThan(10 * OF_HONEST);
  },
  LONG_MS,
);

test(
  'where copies of the store are put back without a new epoch no mail is lost',
  () => {
    expect(play('careless', OF_HONEST).faults).toEqual([]);
  },
  LONG_MS,
);

describe('each lie is seen and named', () => {
  test.each(LIES)('%s', (lie) => expect(play(lie, OF_LIE).faults).toEqual([]), LONG_MS);
});

const NOT_SEEN = 'the lie was not seen';
const FALSE_WORD = 'an honest relay was said to be';

/**
 * What goes wrong without a rule, in so many histories. Only rules that can be taken away around the code under test
 * are here; without the others these worlds show no fault: what was refused is asked again, and mail makes new looks.
 */
const CONTROLS: [lacks: Lacking, kind: WorldKind, fault: string, histories: number][] = [
  ['notes of peers', 'epoch fork', NOT_SEEN, 3],
  ['proofs of rows', 'left out', NOT_SEEN, 3],
  ['own notes', 'epoch fork', NOT_SEEN, 10],
  ['left epochs', 'old epoch again', NOT_SEEN, 30],
  ['ends of looks', 'honest', FALSE_WORD, 60],
  ['patience', 'honest', FALSE_WORD, 100],
];
/** More are for the thorough part. */
const CHEAP = 3;

test.each(CONTROLS.filter(({ 3: histories }) => IS_THOROUGH || histories <= CHEAP))(
  'without %s, where the world is %s: %s',
  (lacks, kind, fault, histories) => {
    expect(play(kind, histories, lacks).faults.some((found) => found.includes(fault))).toBe(true);
  },
  LONG_MS,
);
