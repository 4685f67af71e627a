/**
 * Mail between agents: two on one host, and one on a paired host. Real daemons, and the tools as MCP clients have them.
 * What is printed was checked.
 */
import { strict as assert } from 'node:assert';
import type { WholeMessage } from '../../src/host/contract/mail.ts';
import type { PosteProcess } from '../../test/support/poste-process.ts';
import { type PosteHome, posteHome } from '../../test/support/poste-home.ts';
import { until } from '../until.ts';
import { type DemoAgent, agentOf } from './agent.ts';
import { step } from './step.ts';

const ASKED = 'Please run the suite of branch fix-7 on your machine, and tell me what fails.';
const ANSWERED = 'All 212 pass.';

/** The answer of a tool that refuses to send. */
interface Refused {
  code: string;
  message: string;
  details: { recipients: { to: string; suggestions: string[] }[] };
}

export async function showMail(): Promise<void> {
  const desktop = await host('desktop');
  const lab = await host('lab');
  const daemon = await desktop.daemonProcess();
  await lab.daemonProcess();
  step('Two other hosts run, desktop and lab', `each with a store of its own: ${desktop.folder}, ${lab.folder}`);
  const builder = await agentOf(desktop, 'builder');
  const reviewer = await agentOf(desktop, 'reviewer', ['review']);
  const tester = await agentOf(lab, 'tester');
  step('Their agents have the mail tools (poste mcp)', 'builder and reviewer on desktop, tester on lab');

  await showOneHost(builder, reviewer);
  await showPairing(desktop, lab);
  await showTwoHosts({ desktop, lab, daemon }, builder, tester);
}

/** A host whose daemon has a port of this machine that nobody has. */
function host(name: string): Promise<PosteHome> {
  return posteHome(name, { POSTE_LAN_LISTEN: '127.0.0.1:0' });
}

async function showOneHost(builder: DemoAgent, reviewer: DemoAgent): Promise<void> {
  const mail = { to: ['role:review'], subject: 'Review', body: 'Branch fix-7 is ready.', idempotency_key: 'review-7' };
  const sent = await builder.use('mail_send', mail);
  const [recipient] = sent.recipients;
  assert.equal(recipient?.recipient, 'reviewer@desktop');
  const again = await builder.use('mail_send', mail);
  assert.deepEqual(again, { ...sent, duplicate: true });
  step(
    'builder writes to role:review, twice with one idempotency key',
    `${recipient.recipient}: ${recipient.status}; the second time nothing was sent`,
  );

  const read = await onlyUnread(reviewer);
  assert.equal(read.from, 'builder@desktop');
  await reviewer.use('mail_reply', { message_id: read.message_id, body: 'Merged.' });
  const reply = await onlyUnread(builder);
  assert.deepEqual([reply.body, reply.reply_to], ['Merged.', sent.message_id]);
  step('reviewer reads it and replies; builder has the answer in the same thread', `"${reply.body}"`);

  const wrong = { to: ['reviwer'], subject: 'Review', body: 'Once more.' };
  const refused = await builder.call('mail_send', wrong);
  assert.equal(refused.isError, true);
  const text = refused.content[0]?.type === 'text' ? refused.content[0].text : '';
  const { code, message, details } = JSON.parse(text) as Refused;
  assert.equal(code, 'UNKNOWN_RECIPIENT');
  assert.ok(details.recipients[0]?.suggestions.includes('reviewer'));
  step('builder misspells a name: nothing is sent', message);
}

async function showPairing(desktop: PosteHome, lab: PosteHome): Promise<void> {
  const own = await lab.client.call('status', {});
  const invite = await desktop.client.call('pair-invite', { fingerprint: own.fingerprint });
  const [address] = invite.addresses;
  assert.ok(address);
  const pinned = await lab.client.call('pair-accept', { code: invite.code, address });
  assert.equal(pinned.fingerprint, invite.fingerprint);
  const { peers } = await desktop.client.call('peers', {});
  assert.deepEqual(
    peers.map(({ host, fingerprint }) => [host, fingerprint]),
    [['lab', own.fingerprint]],
  );
  step(
    'The hosts are paired by a one-time code and a fingerprint: each pins the key of the other',
    `desktop listens at ${address}`,
  );
}

interface Hosts {
  desktop: PosteHome;
  lab: PosteHome;
  /** The daemon of desktop. */
  daemon: PosteProcess;
}

async function showTwoHosts({ desktop, lab, daemon }: Hosts, builder: DemoAgent, tester: DemoAgent): Promise<void> {
  await until('desktop knows the agents of lab', async () => {
    const { agents } = await builder.use('mail_agents', { host: 'lab' });
    return agents.find(({ address }) => address === 'tester@lab');
  });
  const request = { to: ['tester@lab'], subject: 'Tests of fix-7', body: ASKED, kind: 'request', needs_reply: true };
  const sent = await builder.use('mail_send', request);
  assert.equal(sent.recipients[0]?.status, 'remote');
  step('builder sends a request to tester@lab: sealed for lab, signed by desktop, queued', sent.recipients[0].detail);

  const arrived = await until('the request arrives', () => firstUnread(tester));
  assert.deepEqual([arrived.from, arrived.body, arrived.needs_reply], ['builder@desktop', ASKED, true]);
  const asked = await stateOf(desktop, 'builder', sent.message_id, 'read');
  step('tester reads it, and a signed receipt says so at desktop', `${asked.recipient}: ${asked.state}`);

  await tester.use('mail_inbox', { action: 'ack', message_ids: [arrived.message_id] });
  const reply = await tester.use('mail_reply', { message_id: arrived.message_id, body: ANSWERED });
  const answer = await until('the reply arrives', () => firstUnread(builder));
  assert.deepEqual([answer.from, answer.body, answer.reply_to], ['tester@lab', ANSWERED, sent.message_id]);
  const acked = await stateOf(desktop, 'builder', sent.message_id, 'acked');
  const seen = await stateOf(lab, 'tester', reply.message_id, 'read');
  step(
    'tester acks and replies; builder reads the answer in the same thread',
    `"${answer.body}"`,
    `at desktop, ${acked.recipient}: ${acked.state}; at lab, ${seen.recipient}: ${seen.state}`,
  );

  await daemon.kill();
  await desktop.daemonProcess();
  const kept = await builder.use('mail_inbox', { action: 'thread', thread: sent.thread });
  assert.deepEqual(
    kept.messages?.map(({ body }) => body),
    [ASKED, ANSWERED],
  );
  await until('nothing is left in the outbox', async () => {
    const { rows } = await desktop.client.call('outbox', {});
    return rows.length === 0 ? true : undefined;
  });
  step(
    "desktop's daemon is killed (kill -9) and starts again",
    'the same tools go on: the thread is whole, nothing is left in the outbox',
  );
}

/** The unread message, read: it is one and no more. */
async function onlyUnread(agent: DemoAgent): Promise<WholeMessage> {
  const message = await firstUnread(agent);
  assert.ok(message);
  const { unread } = await agent.use('mail_inbox');
  assert.equal(unread, 0);
  return message;
}

async function firstUnread(agent: DemoAgent): Promise<WholeMessage | undefined> {
  const { summaries = [] } = await agent.use('mail_inbox');
  const [summary] = summaries;
  if (!summary) return undefined;
  const { messages } = await agent.use('mail_inbox', { action: 'read', message_ids: [summary.message_id] });
  return messages?.[0];
}

/** Returns what an agent's host knows of the message it sent, once it knows `state` of its one recipient. */
async function stateOf(
  host: PosteHome,
  as: string,
  messageId: string,
  state: string,
): Promise<{ recipient: string; state: string }> {
  return until(`the receipt ${state}`, async () => {
    const { messages } = await host.client.call('mail-sent', {}, { as });
    const sent = messages.find(({ message_id }) => message_id === messageId);
    assert.equal(sent?.recipients.length, 1);
    return sent.recipients.find((recipient) => recipient.state === state);
  });
}
