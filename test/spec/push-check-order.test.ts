/**
 * The checks of docs/protocol.md, "POST /v2/relay/items", in order: the first that fails decides for the whole item.
 *
 * Every rejection has an item that fails just that check. For each pair of neighbours one item fails both, in every
 * arrangement of its targets: the earlier check must name it.
 */
import { describe, expect, test } from 'vitest';
import { type To, pushOf } from '../support/commands.ts';
import { accepted, enrolled, enrolledInAccount } from '../support/events.ts';
import { type Given, given } from '../support/given.ts';
import { decidePush, knownKeys, pushFacts } from '../../src/relay/core/decide-push.ts';
import { settingsWith } from '../support/settings.ts';
import { alice, bob, carol, dave, hostNamed } from '../support/hosts.ts';
import { NOON_MS } from '../support/test-clock.ts';

const REVOKED = hostNamed('revoked');
const STRANGER = hostNamed('stranger');

/** Bob is in account acme and knows m1 of alice's; carol, dave and the revoked one are enrolled. */
function world(): Given {
  return given(
    enrolledInAccount(bob, 'acme'),
    enrolled(carol),
    enrolled(dave),
    enrolled(REVOKED),
    accepted(alice, 'm1', [[bob, NOON_MS, 'known']]),
  )
    .revoked(REVOKED, NOON_MS)
    .under({
      limits: { max_targets: 3, max_item_bytes: 20 },
    });
}

/** Every limit is reached already. */
const full = (): Given =>
  world().under({
    limits: {
      max_queue_items: 0,
      max_queue_bytes: 0,
      max_sender_items: 0,
      max_sender_bytes: 0,
      max_owner_items: 0,
      max_owner_bytes: 0,
    },
    dedupRowsMax: 0,
    mailBudgetBytes: 0,
  });

const verdict = (targets: readonly To[], changes: Parameters<typeof pushOf>[3] = {}, in_ = world()): string =>
  in_.when(pushOf(alice, 'm1', targets, changes)).verdict;

test.each<[string, string, readonly To[], Parameters<typeof pushOf>[3]]>([
  [
    'too many targets',
    'duplicate target',
    [
      [carol, 'x'],
      [carol, 'x'],
      [dave, 'x'],
      [bob, 'x'],
    ],
    {},
  ],
  [
    'duplicate target',
    'too large',
    [
      [carol, 'x'.repeat(21)],
      [dave, 'x'],
      [dave, 'x'],
    ],
    {},
  ],
  [
    'too large',
    'unknown target',
    [
      [STRANGER, 'x'],
      [carol, 'x'.repeat(21)],
    ],
    {},
  ],
  [
    'unknown target',
    'target revoked',
    [
      [REVOKED, 'x'],
      [STRANGER, 'x'],
    ],
    {},
  ],
  ['not sealed', 'conflict', [[bob, 'other']], { wireVerdict: 'not sealed' }],
  ['id mismatch', 'conflict', [[bob, 'other']], { wireVerdict: 'id mismatch' }],
  ['bad receipt', 'conflict', [[bob, 'other']], { wireVerdict: 'bad receipt' }],
])('check order: %s comes before %s', (first, _second, targets, changes) => {
  expect(verdict(targets, changes)).toBe(`rejected:${first}`);
  expect(verdict(targets.toReversed(), changes)).toBe(`rejected:${first}`);
});

/** The verdict when every target published a list that does not hold alice. */
const unwelcome = (targets: readonly To[], changes: Parameters<typeof pushOf>[3] = {}): unknown => {
  const command = pushOf(alice, 'm1', targets, changes);
  const facts = pushFacts(
    command,
    knownKeys(command, world().rows, settingsWith()),
    world().rows,
    world().rows,
    settingsWith(),
  );
  for (const target of facts.targets) target.acceptsSender = false;
  return decidePush(command, facts, settingsWith()).outcome;
};
const rejected = (rejection: string): unknown => ({ type: 'ItemRejected', rejection });

describe('check order: sender not accepted by target', () => {
  test('check order: target revoked comes before sender not accepted by target', () => {
    expect(
      unwelcome([
        [carol, 'x'],
        [REVOKED, 'x'],
      ]),
    ).toEqual(rejected('target revoked'));
    expect(unwelcome([[carol, 'x']])).toEqual(rejected('sender not accepted by target'));
  });

  test.each(['not sealed', 'id mismatch', 'bad receipt'] as const)(
    'check order: sender not accepted by target comes before %s',
    (wireVerdict) => {
      expect(unwelcome([[carol, 'x']], { wireVerdict })).toEqual(rejected('sender not accepted by target'));
      expect(verdict([[carol, 'x']], { wireVerdict })).toBe(`rejected:${wireVerdict}`);
    },
  );

  test('check order: sender not accepted by target comes before conflict and duplicate', () => {
    expect(unwelcome([[bob, 'other']])).toEqual(rejected('sender not accepted by target'));
    expect(unwelcome([[bob, 'known']])).toEqual(rejected('sender not accepted by target'));
  });
});

describe('check order: conflict, duplicate and the quotas', () => {
  test('check order: conflict comes before the quotas', () => {
    const targets: To[] = [
      [carol, 'new'],
      [bob, 'other'],
    ];
    expect(verdict(targets, {}, full())).toBe('rejected:conflict');
    expect(verdict(targets.toReversed(), {}, full())).toBe('rejected:conflict');
  });

  test('check order: all known is a duplicate before any quota', () => {
    expect(verdict([[bob, 'known']], {}, full())).toBe('duplicate');
  });

  test('check order: content comes before duplicate', () => {
    expect(verdict([[bob, 'known']], { wireVerdict: 'not sealed' })).toBe('rejected:not sealed');
  });

  const quotas = [
    ['queue_items', { max_queue_items: 0 }],
    ['queue_bytes', { max_queue_bytes: 0 }],
    ['sender_items', { max_sender_items: 0 }],
    ['sender_bytes', { max_sender_bytes: 0 }],
    ['owner_items', { max_owner_items: 0 }],
    ['owner_bytes', { max_owner_bytes: 0 }],
  ] as const;

  test.each(
    quotas.map(([name, limits], at) => [name, quotas[at + 1]?.[0] ?? 'dedup_rows', limits, quotas[at + 1]?.[1]]),
  )('check order: quota:%s comes before quota:%s', (first, second, limits, nextLimits) => {
    const both = world().under({ limits: { ...limits, ...nextLimits }, ...(!nextLimits && { dedupRowsMax: 0 }) });
    const onlySecond = world().under({ limits: { ...nextLimits }, ...(!nextLimits && { dedupRowsMax: 0 }) });
    const item = pushOf(alice, 'm2', [[bob, 'new']]);
    expect(both.when(item).verdict).toBe(`rejected:quota:${first}`);
    expect(onlySecond.when(item).verdict).toBe(`rejected:quota:${second}`);
  });

  test('check order: each quota is over all targets before the next one begins', () => {
    // Carol's queue would pass its bytes, bob's its items: items are checked first, over both.
    const crowded = given(
      enrolled(bob),
      enrolled(carol),
      accepted(dave, 'd1', [[bob, NOON_MS, 'x']]),
      accepted(dave, 'd2', [[bob, NOON_MS + 1, 'x']]),
    ).under({ limits: { max_queue_items: 2, max_queue_bytes: 4 } });
    const targets: To[] = [
      [carol, 'large'],
      [bob, 'x'],
    ];
    expect(verdict(targets, {}, crowded)).toBe('rejected:quota:queue_items');
    expect(verdict(targets.toReversed(), {}, crowded)).toBe('rejected:quota:queue_items');
  });
});
