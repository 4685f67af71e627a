/** Mail between agents of one host against a model without cleverness, over a real store. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { isRefusal } from '../../src/host/core/refusal.ts';
import type { AgentId } from '../../src/host/core/rows.ts';
import { actingAgent, addAgent, removeAgent, renameAgent } from '../../src/host/agents/agents.ts';
import { useInbox } from '../../src/host/mail/inbox.ts';
import { mailboxOf } from '../../src/host/mailbox/mailbox.ts';
import { sweepRetention } from '../../src/host/mail/retention.ts';
import { sendMail } from '../../src/host/mail/send.ts';
import { accepted } from '../support/mail-context.ts';
import { MailboxModel } from './mailbox-model.ts';
import { type TestContext, disposableContext } from '../support/test-context.ts';
import { share } from '../support/thorough.ts';

const RETENTION_MS = 1000;
const NAMES = ['ann', 'bob', 'cat', 'dan'];
const ROLES = ['qa', 'dev'];

const name = fc.constantFrom(...NAMES);
const nth = fc.nat(7);
const address = fc.oneof(
  { weight: 5, arbitrary: name },
  { weight: 1, arbitrary: fc.constantFrom('*', 'role:qa', 'role:dev', 'nobody') },
);
const step = fc.oneof(
  fc.record({ type: fc.constant('add' as const), name, roles: fc.subarray(ROLES) }),
  fc.record({ type: fc.constant('rename' as const), agent: nth, name }),
  { weight: 1, arbitrary: fc.record({ type: fc.constant('remove' as const), agent: nth }) },
  {
    weight: 8,
    arbitrary: fc.record({
      type: fc.constant('send' as const),
      agent: nth,
      to: fc.array(address, { minLength: 1, maxLength: 3 }),
      kind: fc.constantFrom('message' as const, 'task' as const, 'status' as const),
      answers: fc.option(nth),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constant('mark' as const),
      agent: nth,
      messages: fc.array(nth, { minLength: 1, maxLength: 3 }),
      to: fc.constantFrom('read' as const, 'acked' as const),
    }),
  },
  fc.record({ type: fc.constant('wait' as const), ms: fc.nat(600) }),
  fc.record({ type: fc.constant('sweep' as const) }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

interface Seen {
  seen: unknown;
  expected: unknown;
}
const NOTHING: Seen = { seen: undefined, expected: undefined };
const FIRST_STEPS: Step[] = [
  { type: 'add', name: 'ann', roles: ['qa'] },
  { type: 'add', name: 'bob', roles: ['qa', 'dev'] },
];

class Comparison {
  readonly #model = new MailboxModel();
  readonly #ids: AgentId[] = [];
  readonly #context: TestContext;

  constructor(context: TestContext) {
    this.#context = context;
  }

  /** Returns what the context did, and what it should have done. */
  async take(step: Step): Promise<Seen> {
    const context = this.#context;
    const { nowMs } = context.clock;
    switch (step.type) {
      case 'add': {
        const added = await addAgent(context, { name: step.name, roles: step.roles });
        if (!isRefusal(added)) this.#ids.push(accepted(await actingAgent(context, step.name)));
        return { seen: !isRefusal(added), expected: this.#model.add(step.name, step.roles) };
      }
      case 'wait':
        context.clock.nowMs += step.ms;
        return NOTHING;
      case 'sweep':
        await sweepRetention(context, RETENTION_MS);
        this.#model.sweep(nowMs, RETENTION_MS);
        return NOTHING;
      default:
        return this.#takeOf(step, nowMs);
    }
  }

  async #takeOf(step: Extract<Step, { agent: number }>, nowMs: number): Promise<Seen> {
    const context = this.#context;
    const present = this.#model.present();
    const agent = present[step.agent % Math.max(1, present.length)];
    if (agent === undefined) return NOTHING;
    const { name: present_name } = this.#model.agents[agent]!;
    const agentId = this.#ids[agent]!;
    switch (step.type) {
      case 'rename': {
        const renamed = await renameAgent(context, { name: present_name, new_name: step.name });
        return { seen: !isRefusal(renamed), expected: this.#model.rename(agent, step.name) };
      }
      case 'remove':
        accepted(await removeAgent(context, { name: present_name }));
        this.#model.remove(agent);
        return NOTHING;
      case 'send': {
        const known = this.#model.known(agent);
        const answered = step.answers === null ? undefined : known[step.answers % Math.max(1, known.length)];
        const { to, kind } = step;
        const given = { to, kind, subject: 's', body: 'b', ...(answered !== undefined && { reply_to: answered }) };
        const sent = await sendMail(context, agentId, given);
        if (isRefusal(sent)) {
          return {
            seen: undefined,
            expected: this.#model.send(agent, to, { id: '', thread: '', wakes: false }, nowMs),
          };
        }
        const { message_id: id, thread, recipients } = sent;
        const expectedThread = answered === undefined ? id : this.#model.thread(agent, answered);
        const meant = this.#model.send(agent, to, { id, thread, wakes: kind === 'task' }, nowMs);
        const names = meant?.map((at) => `${this.#model.agents[at]!.name}@here`);
        return {
          seen: [thread, recipients.map((one) => one.recipient).toSorted(byText)],
          expected: [expectedThread, names?.toSorted(byText)],
        };
      }
      case 'mark': {
        const known = this.#model.known(agent);
        if (known.length === 0) return NOTHING;
        const message_ids = step.messages.map((at) => known[at % known.length]!);
        const action = step.to === 'read' ? 'mark_read' : 'ack';
        const { changed } = accepted(await useInbox(context, agentId, { action, message_ids }));
        return { seen: changed ?? [], expected: this.#model.mark(agent, message_ids, step.to, nowMs) };
      }
    }
  }

  /** Every mailbox, by every list and every counter, and every message that is stored. */
  async state(): Promise<Seen> {
    const context = this.#context;
    const seen: unknown[] = [];
    const expected: unknown[] = [];
    for (const agent of this.#model.present()) {
      const agentId = this.#ids[agent]!;
      for (const state of ['unread', 'unacked', 'all'] as const) {
        const { summaries } = accepted(await useInbox(context, agentId, { state, limit: 100 }));
        seen.push(summaries?.map((one) => one.message_id));
        expected.push(this.#model.list(agent, state));
      }
      const { total, unread, unreadWaking } = await context.store.read((reader) => mailboxOf(reader, agentId));
      seen.push({ total, unread, unreadWaking });
      expected.push(this.#model.counts(agent));
    }
    const stored: string[] = [];
    await context.store.read(async (reader) => {
      for await (const { key } of reader.range('body', [])) stored.push(key[0]);
    });
    seen.push(stored.toSorted(byText));
    expected.push(this.#model.kept().toSorted(byText));
    return { seen, expected };
  }
}

function byText(a: string, b: string): number {
  return a < b ? -1 : 1;
}

test('mailboxes are what the model says, whatever is sent, read, renamed, removed and swept', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
      const { context, close } = await disposableContext();
      try {
        const comparison = new Comparison(context);
        for (const one of [...FIRST_STEPS, ...steps]) {
          const { seen, expected } = await comparison.take(one);
          expect(seen).toEqual(expected);
        }
        const { seen, expected } = await comparison.state();
        expect(seen).toEqual(expected);
      } finally {
        await close();
      }
    }),
    { numRuns: share(60) },
  );
});
