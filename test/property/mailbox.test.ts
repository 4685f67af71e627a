/** Mail between agents of one host against a model without cleverness, over a real store. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { isRefusal } from '../../src/host/core/refusal.ts';
import type { AgentId } from '../../src/host/core/rows.ts';
import { actingAgent } from '../../src/host/office/acting-agent.ts';
import { addAgent, removeAgent, renameAgent } from '../../src/host/office/agents.ts';
import { useInbox } from '../../src/host/office/inbox.ts';
import { mailboxOf } from '../../src/host/office/mailbox.ts';
import { sweepRetention } from '../../src/host/office/retention.ts';
import { sendMail } from '../../src/host/office/send.ts';
import { accepted } from '../support/mail-office.ts';
import { MailboxModel } from '../support/mailbox-model.ts';
import { type TestOffice, disposableOffice } from '../support/test-office.ts';

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

class Comparison {
  readonly #model = new MailboxModel();
  readonly #ids: AgentId[] = [];
  readonly #office: TestOffice;

  constructor(office: TestOffice) {
    this.#office = office;
  }

  async take(step: Step): Promise<void> {
    const office = this.#office;
    const { nowMs } = office.clock;
    switch (step.type) {
      case 'add': {
        const added = await addAgent(office, { name: step.name, roles: step.roles });
        expect(!isRefusal(added)).toBe(this.#model.add(step.name, step.roles));
        if (!isRefusal(added)) this.#ids.push(accepted(await actingAgent(office, step.name)));
        return;
      }
      case 'wait':
        office.clock.nowMs += step.ms;
        return;
      case 'sweep':
        await sweepRetention(office, RETENTION_MS);
        this.#model.sweep(nowMs, RETENTION_MS);
        return;
      default:
        await this.#takeOf(step, nowMs);
    }
  }

  async #takeOf(step: Extract<Step, { agent: number }>, nowMs: number): Promise<void> {
    const office = this.#office;
    const present = this.#model.present();
    const agent = present[step.agent % Math.max(1, present.length)];
    if (agent === undefined) return;
    const { name: present_name } = this.#model.agents[agent]!;
    const agentId = this.#ids[agent]!;
    switch (step.type) {
      case 'rename': {
        const renamed = await renameAgent(office, { name: present_name, new_name: step.name });
        expect(!isRefusal(renamed)).toBe(this.#model.rename(agent, step.name));
        return;
      }
      case 'remove':
        accepted(await removeAgent(office, { name: present_name }));
        this.#model.remove(agent);
        return;
      case 'send': {
        const known = this.#model.known(agent);
        const answered = step.answers === null ? undefined : known[step.answers % Math.max(1, known.length)];
        const { to, kind } = step;
        const given = { to, kind, subject: 's', body: 'b', ...(answered !== undefined && { reply_to: answered }) };
        const sent = await sendMail(office, agentId, given);
        const [id, thread] = isRefusal(sent) ? ['', ''] : [sent.message_id, sent.thread];
        const message = { id, thread, wakes: kind === 'task' };
        const expected = this.#model.send(agent, to, message, nowMs);
        expect(isRefusal(sent) ? undefined : sent.recipients.map((one) => one.recipient).toSorted(byText)).toEqual(
          expected?.map((at) => `${this.#model.agents[at]!.name}@here`).toSorted(byText),
        );
        if (expected) expect(thread).toBe(answered === undefined ? id : this.#model.thread(agent, answered));
        return;
      }
      case 'mark': {
        const known = this.#model.known(agent);
        if (known.length === 0) return;
        const message_ids = step.messages.map((at) => known[at % known.length]!);
        const action = step.to === 'read' ? 'mark_read' : 'ack';
        const { changed } = accepted(await useInbox(office, agentId, { action, message_ids }));
        expect(changed).toEqual(this.#model.mark(agent, message_ids, step.to, nowMs));
      }
    }
  }

  /** Every mailbox, by every list and every counter, and every message that is stored. */
  async same(): Promise<void> {
    const office = this.#office;
    for (const agent of this.#model.present()) {
      const agentId = this.#ids[agent]!;
      for (const state of ['unread', 'unacked', 'all'] as const) {
        const { summaries } = accepted(await useInbox(office, agentId, { state, limit: 100 }));
        expect(summaries?.map((one) => one.message_id)).toEqual(this.#model.list(agent, state));
      }
      const counted = await office.store.read((reader) => mailboxOf(reader, agentId));
      expect(counted).toMatchObject(this.#model.counts(agent));
    }
    const stored: string[] = [];
    await office.store.read(async (reader) => {
      for await (const { key } of reader.range('body', [])) stored.push(key[0]);
    });
    expect(stored.toSorted(byText)).toEqual(this.#model.kept().toSorted(byText));
  }
}

function byText(a: string, b: string): number {
  return a < b ? -1 : 1;
}

test('mailboxes are what the model says, whatever is sent, read, renamed, removed and swept', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
      const { office, close } = await disposableOffice();
      try {
        const comparison = new Comparison(office);
        await comparison.take({ type: 'add', name: 'ann', roles: ['qa'] });
        await comparison.take({ type: 'add', name: 'bob', roles: ['qa', 'dev'] });
        for (const one of steps) await comparison.take(one);
        await comparison.same();
      } finally {
        await close();
      }
    }),
    { numRuns: 60 },
  );
}, 120_000);
