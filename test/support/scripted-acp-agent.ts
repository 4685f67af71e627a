/**
 * An agent that speaks the Agent Client Protocol, by script: `node agent.mjs <folder> <way>`, bundled.
 * What it is given it writes into the folder; the way says what it does with a prompt.
 */
import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { setTimeout as elapsed } from 'node:timers/promises';
import * as acp from '@agentclientprotocol/sdk';

const [folder = '', way = ''] = process.argv.slice(2);
const note = (name: string, value: unknown): void => appendFileSync(join(folder, name), `${JSON.stringify(value)}\n`);

note('starts', process.pid);
if (way === 'ends') process.exit(3);

/** The tools that it asks for: one of Poste, and a command that is called like one. */
const ASKED: readonly acp.ToolCallUpdate[] = [
  { toolCallId: 'call-1', title: 'poste_mail_inbox', kind: 'other' },
  { toolCallId: 'call-2', title: 'poste_mail_inbox', kind: 'execute' },
];
const OPTIONS: acp.PermissionOption[] = [
  { optionId: 'always', name: 'Always', kind: 'allow_always' },
  { optionId: 'yes', name: 'Once', kind: 'allow_once' },
  { optionId: 'no', name: 'No', kind: 'reject_once' },
];

async function prompted(
  client: acp.AgentContext,
  { sessionId, prompt }: acp.PromptRequest,
): Promise<acp.PromptResponse> {
  note('prompts', prompt);
  if (way === 'ends in the turn') process.exit(4);
  if (way === 'never ends') await new Promise(() => undefined);
  if (way === 'refuses') throw new acp.RequestError(-32_603, 'Internal error', { details: 'no credit' });
  if (way === 'asks') {
    for (const toolCall of ASKED) {
      const { outcome } = await client.request('session/request_permission', { sessionId, toolCall, options: OPTIONS });
      note('outcomes', outcome);
    }
  }
  if (way === 'asks for another session') {
    const [toolCall = { toolCallId: '' }] = ASKED;
    await client.request('session/request_permission', { sessionId: 'session-2', toolCall, options: OPTIONS });
    while (!existsSync(join(folder, 'go'))) await elapsed(20);
  }
  if (way === 'is silent') return { stopReason: 'end_turn' };
  if (way === 'ends after the turn') setTimeout(() => process.exit(5), 100);
  const update: acp.SessionUpdate = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'Hm.' } };
  await client.notify('session/update', { sessionId, update });
  if (way === 'works') while (!existsSync(join(folder, 'go'))) await elapsed(20);
  return { stopReason: 'end_turn' };
}

acp
  .agent({ name: 'scripted' })
  .onRequest('initialize', () => ({ protocolVersion: acp.PROTOCOL_VERSION, agentCapabilities: {} }))
  .onRequest('session/new', ({ params }) => {
    if (way === 'wants a login') throw new acp.RequestError(-32_000, 'Authentication required');
    writeFileSync(join(folder, 'new.json'), JSON.stringify(params));
    return { sessionId: 'session-1' };
  })
  .onRequest('session/prompt', ({ params, client }) => prompted(client, params))
  .onNotification('session/cancel', () => {
    note('cancels', true);
    writeFileSync(join(folder, 'go'), '');
  })
  .connect(
    acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>),
  );
