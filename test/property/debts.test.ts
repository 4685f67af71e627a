/** Who owes an answer to whom, against a model that looks at everything that ever happened, over a real store. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { isRefusal } from '../../src/host/core/refusal.ts';
import type { AgentId } from '../../src/host/core/rows.ts';
import { removeAgent } from '../../src/host/agents/agents.ts';
import type { SendResult } from '../../src/host/contract/mail.ts';
import { remindDebtors, tellOfGone } from '../../src/host/mail/debt-keeping.ts';
import { useInbox } from '../../src/host/mail/inbox.ts';
import { sweepRetention } from '../../src/host/mail/retention.ts';
import { replyMail, sendMail } from '../../src/host/mail/send.ts';
import { accepted, addAgents, idOf } from '../support/mail-context.ts';
import { type TestContext, disposableContext } from '../support/test-context.ts';
import { share } from '../support/thorough.ts';

const RETENTION_MS = 800;
const REMIND_AFTER_MS = 200;
const NAMES = ['ann', 'bob', 'cat', 'dan'];
const AGENTS = ['ann:qa', 'bob:qa', 'cat:dev', 'dan:dev'];

const nth = fc.nat(20);
const agent = fc.constantFrom(...NAMES);
const address = fc.oneof(
  { weight: 4, arbitrary: agent },
  { weight: 2, arbitrary: fc.constantFrom('*', 'role:qa', 'role:dev') },
);
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('ask' as const),
      agent,
      to: fc.array(address, { minLength: 1, maxLength: 2 }),
      needsReply: fc.oneof({ weight: 4, arbitrary: fc.constant(true) }, fc.constant(false)),
      answers: fc.option(nth),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('reply' as const),
      agent,
      message: nth,
      toAll: fc.boolean(),
      needsReply: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ type: fc.constantFrom('ack' as const, 'read' as const), agent, message: nth }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('remove' as const), agent }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constant('wait' as const), ms: fc.nat(700) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('sweep' as const) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('remind' as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

interface Recipient {
  name: string;
  isGroup: boolean;
  /** When it was read, or acked later; `Infinity` before that. */
  handledAtMs: number;
  isDropped: boolean;
}

interface Letter {
  id: string;
  from: string;
  to: Recipient[];
  needsReply: boolean;
  replyTo: string | null;
  sentAtMs: number;
  /** When retention deleted what its sender kept of it; `Infinity` before that. */
  forgottenAtMs: number;
}

/** Everything that happened; what is owed is looked up in it. */
class History {
  readonly letters: Letter[] = [];
  readonly #acked = new Set<string>();
  readonly #removed = new Set<string>();
  /** How often each debtor was reminded of a question, and each asker told that a debtor is gone. */
  readonly reminders = new Map<string, number>();
  readonly toldGone = new Map<string, number>();

  isPresent(name: string): boolean {
    return !this.#removed.has(name);
  }

  /** The ids that the agent may name. */
  known(name: string): string[] {
    const isKnown = ({ from, to, forgottenAtMs }: Letter): boolean =>
      isIn(to, name) || (from === name && forgottenAtMs === Infinity);
    return this.letters.filter(isKnown).map(({ id }) => id);
  }

  received(name: string): string[] {
    return this.letters.filter(({ to }) => isIn(to, name)).map(({ id }) => id);
  }

  mark(type: 'ack' | 'read', name: string, id: string, nowMs: number): void {
    const letter = this.letters.find((one) => one.id === id)!;
    const mine = letter.to.find((one) => one.name === name)!;
    const isAcked = this.#acked.has(`${name} ${id}`);
    if (type === 'ack' ? !isAcked : mine.handledAtMs === Infinity) mine.handledAtMs = nowMs;
    if (type === 'ack') this.#acked.add(`${name} ${id}`);
  }

  remove(name: string): void {
    for (const { id, from } of this.letters) {
      const isOpen = this.isPresent(from) && from !== name && this.waits(from).includes(`${id} ${name}`);
      if (isOpen) count(this.toldGone, id);
    }
    this.#removed.add(name);
  }

  forget(nowMs: number): void {
    for (const letter of this.letters) {
      if (letter.sentAtMs + RETENTION_MS <= nowMs) letter.forgottenAtMs = Math.min(letter.forgottenAtMs, nowMs);
      for (const one of letter.to) one.isDropped ||= one.handledAtMs + RETENTION_MS <= nowMs;
    }
  }

  remind(nowMs: number): void {
    for (const name of NAMES.filter((one) => this.isPresent(one))) {
      for (const id of this.owes(name)) {
        const { sentAtMs } = this.letters.find((letter) => letter.id === id)!;
        const key = `${name} ${id}`;
        if (sentAtMs + REMIND_AFTER_MS <= nowMs && !this.reminders.has(key)) count(this.reminders, key);
      }
    }
  }

  owes(name: string): string[] {
    const isOpen = (letter: Letter): boolean =>
      this.isPresent(letter.from) && isIn(letter.to, name) && !this.#isSettled(letter, name);
    return this.letters.filter(isOpen).map(({ id }) => id);
  }

  waits(name: string): string[] {
    return this.letters
      .filter(({ from, forgottenAtMs }) => from === name && forgottenAtMs === Infinity)
      .flatMap((letter) =>
        letter.to
          .filter((one) => this.isPresent(one.name) && !this.#isSettled(letter, one.name))
          .map((one) => `${letter.id} ${one.name}`),
      );
  }

  #isSettled(letter: Letter, name: string): boolean {
    if (!letter.needsReply || letter.from === name || this.#acked.has(`${name} ${letter.id}`)) return true;
    const isGroup = letter.to.find((one) => one.name === name)!.isGroup;
    return this.letters.some(
      (answer) =>
        answer.replyTo === letter.id &&
        answer.to.some((one) => one.name === letter.from) &&
        (answer.from === name ||
          (isGroup && answer.sentAtMs <= letter.forgottenAtMs && letter.to.some((one) => one.name === answer.from))),
    );
  }
}

function isIn(to: readonly Recipient[], name: string): boolean {
  return to.some((one) => one.name === name && !one.isDropped);
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

class Comparison {
  readonly #context: TestContext;
  readonly #ids: ReadonlyMap<string, AgentId>;
  readonly history = new History();

  constructor(context: TestContext, ids: ReadonlyMap<string, AgentId>) {
    this.#context = context;
    this.#ids = ids;
  }

  async take(step: Step): Promise<void> {
    const context = this.#context;
    const { history } = this;
    const { nowMs } = context.clock;
    if ('agent' in step) {
      if (history.isPresent(step.agent)) await this.#act(step, this.#ids.get(step.agent)!);
    } else if (step.type === 'wait') context.clock.nowMs += step.ms;
    else if (step.type === 'sweep') {
      history.forget(nowMs);
      await sweepRetention(context, RETENTION_MS);
    } else {
      history.remind(nowMs);
      await remindDebtors(context, REMIND_AFTER_MS);
    }
  }

  async #act(step: Extract<Step, { agent: string }>, agentId: AgentId): Promise<void> {
    const context = this.#context;
    const { history } = this;
    // Each letter has a time of its own.
    context.clock.nowMs++;
    switch (step.type) {
      case 'remove':
        history.remove(step.agent);
        accepted(await removeAgent(context, { name: step.agent }));
        await tellOfGone(context);
        return;
      case 'ask': {
        const { to, needsReply } = step;
        const known = history.known(step.agent);
        const answered = step.answers === null ? undefined : known[step.answers % Math.max(1, known.length)];
        const given = { to, subject: 's', body: 'b', needs_reply: needsReply };
        const sent = await sendMail(context, agentId, {
          ...given,
          ...(answered !== undefined && { reply_to: answered }),
        });
        if (!isRefusal(sent)) this.#note(step, sent, answered ?? null);
        return;
      }
      case 'reply': {
        const known = history.known(step.agent);
        const answered = known[step.message % Math.max(1, known.length)];
        if (answered === undefined) return;
        const given = { message_id: answered, body: 'b', to_all: step.toAll, needs_reply: step.needsReply };
        const sent = await replyMail(context, agentId, given);
        if (!isRefusal(sent)) this.#note(step, sent, answered);
        return;
      }
      default: {
        const received = history.received(step.agent);
        const id = received[step.message % Math.max(1, received.length)];
        if (id === undefined) return;
        const action = step.type === 'ack' ? 'ack' : 'mark_read';
        accepted(await useInbox(context, agentId, { action, message_ids: [id] }));
        history.mark(step.type, step.agent, id, context.clock.nowMs);
      }
    }
  }

  #note(
    { agent: from, needsReply }: { agent: string; needsReply: boolean },
    { message_id: id, recipients }: SendResult,
    replyTo: string | null,
  ): void {
    const to = recipients.map(({ recipient, addressed_as: as }) => ({
      name: recipient.split('@')[0]!,
      isGroup: as.every((text) => text === '*' || text.startsWith('role:')),
      handledAtMs: Infinity,
      isDropped: false,
    }));
    this.history.letters.push({
      id,
      from,
      to,
      needsReply,
      replyTo,
      sentAtMs: this.#context.clock.nowMs,
      forgottenAtMs: Infinity,
    });
  }

  /** The debts of everybody as the store has them and as they should be, and every report there was. */
  async state(): Promise<{ seen: object; expected: object }> {
    const { history } = this;
    const seen: Record<string, unknown> = {};
    const expected: Record<string, unknown> = {};
    const reminded = new Map<string, number>();
    const toldGone = new Map<string, number>();
    await this.#context.store.read(async (reader) => {
      for (const name of NAMES.filter((one) => history.isPresent(one))) {
        const agentId = this.#ids.get(name)!;
        const owes: string[] = [];
        for await (const { key, row } of reader.range('owed', [agentId])) {
          owes.push(row.ref);
          const isDue = reader.get('owedDue', row.sinceMs, agentId, key[1]) === true;
          const isSound =
            reader.get('entry', agentId, key[1])?.ref === row.ref && isDue === (row.remindedAtMs === null);
          if (!isSound) owes.push(`a row that is none: ${row.ref}`);
        }
        const waits: string[] = [];
        for await (const { key, row } of reader.range('asked', [agentId])) {
          const sent = reader.get('sent', key[1]);
          for (const { at } of row.open) waits.push(`${key[1]} ${sent!.recipients[at]!.address.split('@')[0]}`);
        }
        seen[name] = [owes.toSorted(byText), waits.toSorted(byText)];
        expected[name] = [history.owes(name).toSorted(byText), history.waits(name).toSorted(byText)];
        for await (const { row } of reader.range('entry', [agentId])) {
          const { from, replyTo, subject } = reader.get('message', row.ref)!;
          if (from !== 'poste@here' || replyTo === null) continue;
          if (subject.includes('waits for your answer')) count(reminded, `${name} ${replyTo}`);
          else count(toldGone, replyTo);
        }
      }
      let due = 0;
      for await (const { key } of reader.range('owedDue', [])) if (reader.get('owed', key[1], key[2])) due++;
      seen['due'] = (await reader.keys('owedDue', [])).length;
      expected['due'] = due;
    });
    const ofPresent = [...history.reminders].filter(([key]) => history.isPresent(key.split(' ')[0]!));
    const isAsking = (id: string): boolean => history.isPresent(history.letters.find((one) => one.id === id)!.from);
    const ofAskers = [...history.toldGone].filter(([id]) => isAsking(id));
    seen['reports'] = [textsOf(reminded), textsOf(toldGone)];
    expected['reports'] = [textsOf(ofPresent), textsOf(ofAskers)];
    return { seen, expected };
  }
}

function textsOf(counts: Iterable<[string, number]>): string[] {
  return [...counts].map(([key, times]) => `${key} ${times}`).toSorted(byText);
}

function byText(a: string, b: string): number {
  return a < b ? -1 : 1;
}

test('debts are what the history says, whatever is asked, answered, acked, removed, reminded and swept', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
      const { context, close } = await disposableContext();
      try {
        await addAgents(context, AGENTS);
        const ids = new Map<string, AgentId>();
        for (const name of NAMES) ids.set(name, await idOf(context, name));
        const comparison = new Comparison(context, ids);
        for (const one of steps) await comparison.take(one);
        const { seen, expected } = await comparison.state();
        expect(seen).toEqual(expected);
      } finally {
        await close();
      }
    }),
    { numRuns: share(320) },
  );
});
