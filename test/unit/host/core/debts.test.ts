import { expect, test } from 'vitest';
import {
  debtsOf,
  goneText,
  howGone,
  type OpenDebt,
  owesAnswer,
  reminderText,
  settledBy,
} from '../../../../src/host/core/debts.ts';
import type {
  Address,
  AgentId,
  MessageRef,
  PeerId,
  PeerRow,
  RecipientState,
  SentRecipient,
} from '../../../../src/host/core/rows.ts';

const ANN = 'ann-id' as AgentId;
const BOB = 'bob-id' as AgentId;
const CAT = 'cat-id' as AgentId;
const LAPTOP = 'laptop-id' as PeerId;
const SERVER = 'server-id' as PeerId;

function recipient(address: string, given: Partial<SentRecipient>): SentRecipient {
  const state: RecipientState = 'delivered';
  return { address: address as Address, agentId: null, peerId: null, state, atMs: 100, seq: 0, steps: [], ...given };
}

const RECIPIENTS = [
  recipient('bob@here', { agentId: BOB }),
  recipient('cat@here', { agentId: CAT }),
  recipient('dan@laptop', { peerId: LAPTOP }),
  recipient('eve@laptop', { peerId: LAPTOP }),
  recipient('dan@server', { peerId: SERVER }),
];
const NAMED: OpenDebt[] = RECIPIENTS.map((_, at) => ({ at, isGroup: false }));
const GROUP: OpenDebt[] = RECIPIENTS.map((_, at) => ({ at, isGroup: true }));

interface Writer {
  from: string;
  fromAgent?: AgentId;
  fromPeer?: PeerId;
}
function settled({ from, fromAgent = null as never, fromPeer = null as never }: Writer, open = NAMED): number[] {
  return settledBy({ from: from as Address, fromAgent, fromPeer }, RECIPIENTS, open).map(({ at }) => at);
}

test('a message that needs no reply begins no debt, and nobody owes itself an answer', () => {
  const question = { needsReply: true, fromAgent: BOB };
  expect(debtsOf(question, RECIPIENTS).map(({ at }) => at)).toEqual([1, 2, 3, 4]);
  expect(debtsOf({ ...question, needsReply: false }, RECIPIENTS)).toEqual([]);
  expect(owesAnswer({ needsReply: true, fromAgent: null }, BOB)).toBe(true);
});

test('given recipients that are done, when debts are looked for, then those owe nothing', () => {
  const states = RECIPIENTS.map((one, at) => ({ ...one, state: (['acked', 'cancelled', 'read'] as const)[at % 3]! }));
  expect(debtsOf({ needsReply: true, fromAgent: ANN }, states).map(({ at }) => at)).toEqual([2]);
});

test('given named recipients, when one answers, then its debt alone is over', () => {
  expect(settled({ from: 'bob@here', fromAgent: BOB })).toEqual([0]);
  expect(settled({ from: 'Dan@laptop', fromPeer: LAPTOP })).toEqual([2]);
  expect(settled({ from: 'dan@server', fromPeer: SERVER })).toEqual([4]);
});

test('given a role or *, when the first one answers, then all that only the group meant owe nothing', () => {
  expect(settled({ from: 'cat@here', fromAgent: CAT }, GROUP)).toEqual([0, 1, 2, 3, 4]);
  const mixed = GROUP.map((debt) => (debt.at === 0 ? { at: 0, isGroup: false } : debt));
  expect(settled({ from: 'cat@here', fromAgent: CAT }, mixed)).toEqual([1, 2, 3, 4]);
});

test('who was not asked, a host that was not asked and this host itself answer nothing', () => {
  expect(settled({ from: 'ann@here', fromAgent: ANN }, GROUP)).toEqual([]);
  expect(settled({ from: 'dan@elsewhere', fromPeer: 'other' as PeerId }, GROUP)).toEqual([]);
  expect(settled({ from: 'poste@here' }, GROUP)).toEqual([]);
});

test('given one recipient at a host, when that host answers by another name, then that recipient did', () => {
  expect(settled({ from: 'daniel@server', fromPeer: SERVER })).toEqual([4]);
  // Of two nobody knows which.
  expect(settled({ from: 'daniel@laptop', fromPeer: LAPTOP })).toEqual([]);
});

const listOf = (names: string[], fetchedAtMs: number): PeerRow['directory'] => ({
  agents: names.map((name) => ({ name, roles: [] })),
  fetchedAtMs,
});
const gone = (address: string, peer: Parameters<typeof howGone>[1]['peer'], state: RecipientState = 'read') =>
  howGone({ address: address as Address, state, atMs: 100 }, { isRemoved: false, peer, listMax: 3, askedAtMs: 90 });

test('a debtor is gone when it was removed or its host unpaired, and may be when its host lists it no more', () => {
  expect(howGone(RECIPIENTS[0]!, { isRemoved: true, peer: null, listMax: 3, askedAtMs: 90 })).toBe('removed');
  expect(gone('bob@here', null)).toBeUndefined();
  expect(gone('dan@laptop', { unpairedAtMs: 5, directory: null })).toBe('unpaired');
  expect(gone('dan@laptop', { unpairedAtMs: null, directory: listOf(['eve'], 101) })).toBe('unlisted');
  expect(gone('dan@laptop', { unpairedAtMs: null, directory: listOf(['DAN'], 101) })).toBeUndefined();
  expect(gone('owner@laptop', { unpairedAtMs: null, directory: listOf(['eve'], 101) })).toBeUndefined();
  // A list from before, a cut one or none shows nothing, and neither does one about a message that did not arrive.
  expect(gone('dan@laptop', { unpairedAtMs: null, directory: listOf(['eve'], 100) })).toBeUndefined();
  expect(gone('dan@laptop', { unpairedAtMs: null, directory: listOf(['eve', 'fay', 'gus'], 101) })).toBeUndefined();
  expect(gone('dan@laptop', { unpairedAtMs: null, directory: null })).toBeUndefined();
  expect(gone('dan@laptop', { unpairedAtMs: null, directory: listOf(['eve'], 101) }, 'pending')).toBeUndefined();
});

test('given a clock of its host that is behind, a list from before the question shows nothing either', () => {
  const debtor = { address: 'dan@laptop' as Address, state: 'read', atMs: 50 } as const;
  for (const [fetchedAtMs, how] of [
    [90, undefined],
    [91, 'unlisted'],
  ] as const) {
    const peer = { unpairedAtMs: null, directory: listOf(['eve'], fetchedAtMs) };
    expect(howGone(debtor, { isRemoved: false, peer, listMax: 3, askedAtMs: 90 })).toBe(how);
  }
});

test('reports name the debtor and the question', () => {
  const debtors = ['dan@laptop', 'eve@laptop'] as Address[];
  for (const how of ['removed', 'unpaired', 'unlisted'] as const) {
    const { subject, body } = goneText(how, { debtors, ref: 'm1' as MessageRef, hostName: 'laptop' });
    expect(subject).toMatch(/answer .*come from dan@laptop, eve@laptop$/);
    expect(body).toContain('dan@laptop, eve@laptop');
    expect(body).toContain('your message m1');
  }
  const many = Array.from({ length: 7 }, (_, at) => `a${at}@laptop` as Address);
  const { subject } = goneText('unpaired', { debtors: many, ref: 'm1' as MessageRef, hostName: 'laptop' });
  expect(subject).toMatch(/ a0@laptop, .*, a4@laptop and 2 more$/);
  const question = { from: 'ann@here' as Address, ref: 'm1' as MessageRef };
  expect(reminderText(question, 86_400_000)).toEqual({
    subject: 'ann@here waits for your answer',
    body:
      'ann@here asked you something 24 hours ago, in message m1, and has no answer. ' +
      'Reply to that message, or ack that message if it needs no answer.',
  });
});
