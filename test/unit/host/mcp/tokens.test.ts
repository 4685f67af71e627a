/**
 * Mail costs an agent tokens, which are about characters / 4. A model reads the instructions and, of each
 * tool, the name, the description and the schema of its input; and then the text of each answer.
 */
import type { Client } from '@modelcontextprotocol/client';
import { expect, test } from 'vitest';
import { OPERATIONS } from '../../../../src/host/api/operations.ts';
import { replyMail } from '../../../../src/host/mail/send.ts';
import { TOOLS } from '../../../../src/host/mcp/tools.ts';
import { REVISIONS } from '../../../support/mcp-client.ts';
import { accepted, idOf, send } from '../../../support/mail-context.ts';
import { connectHere, mcpDaemon } from '../../../support/mcp-in-process.ts';

function tokensOf(...texts: (string | undefined)[]): number {
  return texts.join('').length / 4;
}

test.each(REVISIONS)('the instructions and the tools cost at most 900 tokens over MCP %s', async (revision) => {
  const { client } = await connectHere(await mcpDaemon(['reviewer']), 'reviewer', revision);
  const { tools } = await client.listTools();
  const costs = tools.map(({ name, description, inputSchema }) =>
    tokensOf(name, description, JSON.stringify(inputSchema)),
  );
  expect(costs).toHaveLength(4);
  const instructions = tokensOf(client.getInstructions());
  expect(instructions).toBeGreaterThan(150);
  expect(costs.reduce((sum, cost) => sum + cost, instructions)).toBeLessThanOrEqual(900);
  // Few clients show these to their model.
  const outputs = tools.map(({ outputSchema }) => tokensOf(JSON.stringify(outputSchema)));
  expect(outputs.reduce((sum, cost) => sum + cost)).toBeLessThanOrEqual(400);
});

async function listed(client: Client): Promise<string> {
  const { content } = await client.callTool({ name: 'mail_inbox', arguments: {} });
  const [block] = content;
  return block?.type === 'text' ? block.text : '';
}

test.each<[what: string, max: number, given: object]>([
  ['a message', 40, {}],
  ['a request that needs a reply', 46, { kind: 'request', needs_reply: true }],
  ['a reply', 46, { isReply: true }],
  ['a message to a group, from outside', 60, { to: ['reviewer', 'owner'], origin: 'external' }],
])('%s costs at most %i tokens in a list', async (_what, max, { isReply, ...given }: { isReply?: true }) => {
  const daemon = await mcpDaemon(['builder', 'reviewer']);
  const { context } = daemon;
  const builder = await idOf(context, 'builder');
  const asked = accepted(await send(context, 'reviewer', { to: ['builder'], subject: 'Review of branch fix-7' }));
  const { client } = await connectHere(daemon, 'reviewer', REVISIONS[0]);
  const mail = { to: ['reviewer'], subject: 'Branch fix-7 is ready', body: 'Words of an agent. '.repeat(20), ...given };
  const post = async (): Promise<unknown> =>
    isReply
      ? accepted(await replyMail(context, builder, { message_id: asked.message_id, body: mail.body }))
      : accepted(await send(context, 'builder', mail));
  await post();
  const one = await listed(client);
  for (let more = 0; more < 4; more++) await post();
  const five = await listed(client);
  expect(JSON.parse(five)).toMatchObject({ unread: 5 });
  expect(tokensOf(five) - tokensOf(one)).toBeLessThanOrEqual(4 * max);
});

test('a tool shows the members of its operation with their types, but those that another tool is for', async () => {
  const { client } = await connectHere(await mcpDaemon(['reviewer']), 'reviewer', REVISIONS[0]);
  const { tools } = await client.listTools();
  for (const { name, inputSchema, outputSchema } of tools) {
    const operation = OPERATIONS[TOOLS.find((tool) => tool.name === name)?.operation ?? 'mail-send'];
    const { properties, required } = JSON.parse(JSON.stringify(operation.input)) as typeof inputSchema;
    const names = Object.keys(properties ?? {}).filter((member) => name !== 'mail_send' || member !== 'reply_to');
    expect(Object.keys(inputSchema.properties ?? {})).toEqual(names);
    expect(inputSchema.required).toEqual(required);
    for (const [member, shown] of Object.entries(inputSchema.properties ?? {})) {
      const { type, items } = (properties as Record<string, { type: string; items?: { type: string } }>)[member] ?? {};
      expect(shown).toMatchObject({ type, ...(items && { items: { type: items.type } }) });
    }
    expect(Object.keys(outputSchema?.properties ?? {})).toEqual(Object.keys(operation.output.properties));
  }
  const kinds = tools.map(({ inputSchema }) => (inputSchema.properties?.['kind'] as { enum?: string[] })?.enum);
  const [ofSend, ofReply] = kinds;
  expect(ofSend).toEqual(['message', 'request', 'status', 'decision', 'alert', 'task']);
  expect(ofReply).toContain('reply');
});
