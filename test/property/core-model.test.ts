/** The relay's core over rows in memory against the naive model: any commands, in any order, at any time. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { type AskedCommand, anyHistory } from '../../src/library/any-command.ts';
import { MemoryRelay } from '../../src/library/decide.ts';
import { NaiveModel } from '../../src/library/model.ts';
import type { Outcome, Refusal } from '../../src/relay/core/decision.ts';
import { hostNamed, relay as relayHost } from '../support/hosts.ts';
import { settingsWith } from '../support/settings.ts';
import { SMALL_SETTINGS } from '../support/comparison.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { share, tried } from '../support/thorough.ts';

const HOSTS = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => hostNamed(name).signer);

function verdictOf(outcome: Outcome | Refusal): string {
  if (outcome.type === 'Refusal') return outcome.code;
  if (outcome.type === 'ItemStored') return outcome.status;
  return outcome.type === 'ItemRejected' ? `rejected:${outcome.rejection}` : outcome.type;
}

/** Returns what both say of a command; `undefined` where it would not get past its hop. */
function said(command: AskedCommand, relay: MemoryRelay, model: NaiveModel): [unknown, unknown] | undefined {
  const take = (): Outcome | Refusal => {
    const decision = relay.handle(command);
    return decision.type === 'Refusal' ? decision : decision.outcome;
  };
  switch (command.type) {
    case 'PushItem': {
      if (!model.isLive(command.senderPubkey)) return undefined;
      const outcome = take();
      const { verdict, seqs } = model.push(command);
      const told = outcome.type === 'ItemStored' ? outcome.targets.map(({ seq }) => seq) : [];
      const isTold = told.length === seqs.length && told.every((seq, at) => seqs[at]?.includes(seq));
      return [
        [verdictOf(outcome), true],
        [verdict, isTold],
      ];
    }
    case 'AckItems': {
      if (!model.isLive(command.targetPubkey)) return undefined;
      const outcome = take();
      const { verdict, deleted } = model.ack(command.targetPubkey, command.through, command.nowMs);
      return [
        [verdictOf(outcome), outcome.type === 'Acked' ? outcome.deleted : 0],
        [verdict, deleted],
      ];
    }
    case 'EnrolHost': {
      const outcome = take();
      const { verdict, lapsing } = model.enrol(command);
      for (const key of lapsing) if (!relay.rows.directory.get(key)) model.enrolments.delete(key);
      return [verdictOf(outcome), verdict];
    }
    case 'RotateKey':
      return [verdictOf(take()), model.rotate(command).verdict];
    case 'RevokeHost':
      return [verdictOf(take()), model.revoke(command.hostPubkey)];
    case 'PublishSenders':
      if (!model.isLive(command.hostPubkey)) return undefined;
      return [verdictOf(take()), model.publishSenders(command)];
    case 'DenyHosts':
      take();
      model.deny(command);
      return undefined;
    case 'IssueInvite':
      take();
      model.invite(command);
      return undefined;
    case 'NoteHostSeen': {
      take();
      const host = model.enrolments.get(command.hostPubkey);
      if (host) host.seen = true;
      return undefined;
    }
  }
}

/** Runs histories at a relay and at the model, and counts what they reached. */
function compareHistories(admission: 'open' | 'invite', parameters: fc.Parameters<unknown>) {
  let [commands, accepted, overBudget] = [0, 0, 0];
  const histories = anyHistory({ hosts: HOSTS, fromMs: NOON_MS });
  fc.assert(
    fc.property(histories, (all) => {
      const settings = settingsWith({ ...SMALL_SETTINGS, admission });
      const relay = new MemoryRelay({ signer: relayHost.signer, settings, nowMs: NOON_MS });
      const model = new NaiveModel(settings, relayHost.signer);
      for (const command of all) {
        const [seen, expected] = said(command, relay, model) ?? [];
        commands++;
        if (Array.isArray(seen) && seen[0] === 'accepted') accepted++;
        if (Array.isArray(seen) && seen[0] === 'rejected:quota:relay_bytes') overBudget++;
        expect({ command, said: seen }).toEqual({ command, said: expected });
        for (const { publicKey } of HOSTS) {
          const queued = relay.rows.queue(publicKey).map(({ seq, itemId }) => [seq, itemId]);
          expect(queued).toEqual(model.queue(publicKey).map(({ seq, itemId }) => [seq, itemId]));
        }
      }
    }),
    parameters,
  );
  return { commands, accepted, overBudget };
}

test.each(['open', 'invite'] as const)('says what the model says of any commands (%s)', (admission) => {
  const { commands, accepted } = compareHistories(admission, { numRuns: share(160) });
  expect(commands).toBeGreaterThan(0);
  tried(`${commands} commands in ${share(160)} histories, of which ${accepted} pushes were accepted (${admission})`);
});

test.each(['open', 'invite'] as const)(
  'reaches pushes that are accepted, and the part of strangers (%s)',
  (admission) => {
    const { accepted, overBudget } = compareHistories(admission, { numRuns: 60, seed: 1 });
    expect(accepted).toBeGreaterThan(0);
    // Whom an invite admitted is vouched for.
    expect(overBudget > 0).toBe(admission === 'open');
  },
);
