/** Tests what is answered before the server is loaded: to the byte what the server says, or nothing. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { envelopeParams, handshakeParams, readyAnswers, serverFor } from '../../../../scripts/ready-answers.ts';
import { ENVELOPE_METHODS, FirstAnswers, HANDSHAKE_METHODS } from '../../../../src/host/mcp/first-answers.ts';

const ready = await readyAnswers();
const AGENT = 'bob.the-2nd_';
const HANDSHAKE = handshakeParams('2025-11-25');
const ENVELOPE = envelopeParams('2026-07-28');
const BEGIN = request(0, 'initialize', HANDSHAKE('initialize'));
const BEGUN = request(0, 'server/discover', ENVELOPE(''));
const READY = '{"jsonrpc":"2.0","method":"notifications/initialized"}';
const LIST = request(1, 'tools/list');

function request(id: unknown, method: string, params?: unknown): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params });
}

/** The next `count` lines of the server alone, to a client that says these. */
async function saidByServer(lines: readonly (string | Buffer)[], count: number): Promise<string[]> {
  const server = serverFor(AGENT);
  for (const line of lines) server.say(line);
  const said: string[] = [];
  for (let at = 0; at < count; at++) said.push(await server.heard());
  await server.end();
  return said;
}

/** The same with the first answers before the server, which reads all of the lines as well. */
async function saidByBoth(
  lines: readonly (string | Buffer)[],
  count: number,
): Promise<{ first: string[]; all: string[] }> {
  const answers = new FirstAnswers(ready, AGENT);
  const first = lines.map((line) => answers.answerTo(Buffer.from(line))).filter((line) => line !== undefined && line);
  const server = serverFor(AGENT, answers.answered);
  for (const line of lines) server.say(line);
  const all = first.map(String);
  while (all.length < count) all.push(await server.heard());
  // What the server says to the last one proves that it says nothing more to the others.
  server.say('{"jsonrpc":"2.0","id":"last","method":"no/such"}');
  expect(await server.heard()).toContain('"id":"last"');
  await server.end();
  return { first: first.map(String), all };
}

const byHandshake = ready.handshakes.map((revision) => ({ revision, methods: HANDSHAKE_METHODS }));
const byEnvelope = ready.envelopes.map((revision) => ({ revision, methods: ENVELOPE_METHODS }));

describe.each([...byHandshake, ...byEnvelope])('a client of $revision', ({ revision, methods }) => {
  const paramsOf = ready.handshakes.includes(revision) ? handshakeParams(revision) : envelopeParams(revision);

  test('gets each first answer as the server gives it, under ids of either kind', async () => {
    const ids = [7, 0, 'a "quoted" id', '', -3, '$&', Number.MAX_SAFE_INTEGER];
    const lines = methods.map((method, at) => request(ids[at], method, paramsOf(method)));
    const { first, all } = await saidByBoth(lines, lines.length);
    expect(first).toHaveLength(methods.length);
    expect(all.toSorted()).toEqual((await saidByServer(lines, lines.length)).toSorted());
    expect(first[0]).toContain(`You are the agent ${AGENT}.`);
  });
});

test('the revisions that the server speaks are those of the answers', () => {
  expect(ready.handshakes[0]).toBe('2025-11-25');
  expect(ready.envelopes).toEqual(['2026-07-28']);
});

function handshake(protocolVersion: string, capabilities: object, clientInfo: object): string {
  return request(0, 'initialize', { protocolVersion, capabilities, clientInfo });
}

const CLAUDE = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': {
    name: 'claude-code',
    title: 'Claude Code',
    version: '2.1.332',
    description: "Anthropic's agentic coding tool",
    websiteUrl: 'https://claude.com/claude-code',
  },
  'io.modelcontextprotocol/clientCapabilities': { roots: { listChanged: true }, elicitation: { form: {}, url: {} } },
};
const CODEX = { name: 'codex-mcp-client', title: 'Codex', version: '0.171.0' };
const TASKS = { 'io.modelcontextprotocol/tasks': {}, 'io.modelcontextprotocol/skills': {} };

/** What programs begin with, as they were heard. */
const CLIENTS: [name: string, lines: string[]][] = [
  [
    'Claude Code 2.1.332',
    [
      request('server-discover-probe-1', 'server/discover', { _meta: CLAUDE }),
      request(0, 'resources/list', { _meta: CLAUDE }),
      request(1, 'tools/list', { _meta: CLAUDE }),
    ],
  ],
  [
    'Codex 0.171.0',
    [
      handshake('2025-06-18', { experimental: { 'codex/auth-change': {} }, elicitation: { form: {}, url: {} } }, CODEX),
      READY,
      request(1, 'tools/list', { _meta: { progressToken: 0 } }),
    ],
  ],
  [
    'Gemini CLI 0.61.0',
    [
      handshake('2025-06-18', { roots: { listChanged: true } }, { name: 'gemini-cli-mcp-client', version: '0.61.0' }),
      READY,
      request(1, 'tools/list', {}),
      request(2, 'resources/list', {}),
    ],
  ],
  ['OpenCode 1.18.33', [handshake('2025-11-25', { roots: {} }, { name: 'opencode', version: '1.18.33' }), READY, LIST]],
  [
    'the MCP Inspector 2.12.0',
    [
      handshake(
        '2025-11-25',
        { roots: { listChanged: true }, extensions: TASKS },
        { name: 'inspector-cli', version: '2.12.0' },
      ),
      READY,
      LIST,
    ],
  ],
  ['a program of a revision to come', [BEGIN.replace('2025-11-25', '2031-01-01'), READY, LIST]],
];

test.each(CLIENTS)('%s gets all of its first answers before the server', async (_name, lines) => {
  const count = lines.filter((line) => line.includes('"id"')).length;
  const { first, all } = await saidByBoth(lines, count);
  expect(first).toHaveLength(count);
  // Sent at once, they may be answered in another order.
  expect(all.toSorted()).toEqual((await saidByServer(lines, count)).toSorted());
});

/** The lines that are answered before the server; and how many answers the server gives to all of them. */
const CASES: [name: string, lines: (string | Buffer)[], first: number, count: number][] = [
  ['a list before the handshake', [LIST], 0, 1],
  ['a ping before the handshake', ['{"jsonrpc":"2.0","id":1,"method":"ping"}', BEGIN], 0, 2],
  ['a notification before the handshake', [READY, BEGIN], 0, 1],
  ['a call before the handshake', [request(5, 'tools/call', { name: 'no_such' }), BEGIN], 0, 2],
  ['a handshake without parameters', ['{"jsonrpc":"2.0","id":0,"method":"initialize"}'], 0, 1],
  [
    'a handshake without a client',
    [request(0, 'initialize', { protocolVersion: '2025-11-25', capabilities: {} })],
    0,
    1,
  ],
  ['a second handshake', [BEGIN, BEGIN.replace('"id":0', '"id":9')], 1, 2],
  ['the id of the handshake again', [BEGIN, LIST.replace('"id":1', '"id":0')], 1, 2],
  ['a list with a cursor', [BEGIN, READY, request(1, 'tools/list', { cursor: 'x' })], 1, 2],
  ['a list with a cursor that is none', [BEGIN, request(1, 'tools/list', { cursor: 3 })], 1, 2],
  ['parameters that are none', [BEGIN, request(1, 'tools/list', [])], 1, 2],
  ['a token of progress that is none', [BEGIN, request(1, 'tools/list', { _meta: { progressToken: {} } })], 1, 2],
  ['a method of Object', [BEGIN, request(1, 'constructor'), request(2, '__proto__')], 1, 3],
  ['a member more', [BEGIN, '{"jsonrpc":"2.0","id":1,"method":"tools/list","more":1}', LIST.replace('1', '4')], 1, 3],
  ['an id that is none', [BEGIN, '{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}', LIST.replace('1', '4')], 1, 3],
  [
    'another version of JSON-RPC',
    [BEGIN, '{"jsonrpc":"1.0","id":1,"method":"tools/list"}', LIST.replace('1', '4')],
    1,
    3,
  ],
  ['a batch', [BEGIN, READY, `[${LIST},{"jsonrpc":"2.0","id":2,"method":"ping"}]`], 1, 2],
  ['a batch that begins', [`[${BEGIN}]`, LIST], 0, 2],
  ['a line that is no JSON', [BEGIN, 'x{', LIST], 1, 2],
  ['a line that is no UTF-8', [Buffer.from(BEGIN.replace('build', 'b\u00fcild'), 'latin1')], 0, 1],
  ['a number that is none', [BEGIN.replace('{}', '{"experimental":{"a":{"b":1e999}}}')], 0, 1],
  ['a capability that is none', [BEGIN.replace('{}', '{"experimental":{"a":1}}')], 0, 1],
  ['a client without a version', [BEGIN.replace(',"version":"0"', '')], 0, 1],
  ['a cursor that is none, in an envelope', [request(1, 'tools/list', { ...ENVELOPE(''), cursor: 3 })], 0, 1],
  ['a token that is none, in an envelope', [BEGUN.replace('"_meta":{', '"_meta":{"progressToken":{},')], 0, 1],
  [
    'lines with nothing on them, and ends of Windows',
    [`${BEGIN}\r`, `${LIST}\r`, '', ' ', LIST.replace('1', '4')],
    2,
    3,
  ],
  ['the handshake in an envelope', [request(0, 'initialize', { ...HANDSHAKE('initialize'), ...ENVELOPE('') })], 0, 1],
  ['an envelope after a handshake', [BEGIN, request(1, 'tools/list', ENVELOPE(''))], 1, 2],
  ['a discovery after a handshake', [BEGIN, request(1, 'server/discover', ENVELOPE(''))], 1, 2],
  [
    'a handshake after a discovery',
    [request(0, 'server/discover', ENVELOPE('')), BEGIN.replace('"id":0', '"id":8')],
    1,
    2,
  ],
  ['a handshake after an envelope', [request(0, 'tools/list', ENVELOPE('')), BEGIN.replace('"id":0', '"id":8')], 1, 2],
  ['an unknown revision in an envelope', [request(0, 'server/discover', envelopeParams('2031-01-01')(''))], 0, 1],
  [
    'an envelope without capabilities',
    [request(0, 'server/discover', { _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } })],
    0,
    1,
  ],
  [
    'a subscription by envelope',
    [
      request(0, 'server/discover', ENVELOPE('')),
      request(1, 'subscriptions/listen', { ...ENVELOPE(''), notifications: {} }),
    ],
    1,
    2,
  ],
  ['a subscription by handshake', [BEGIN, request(1, 'resources/subscribe', { uri: 'poste://inbox' })], 1, 2],
];

test.each(CASES)(
  '%s: what is not plain is for the server, and all is said once',
  async (_name, lines, before, count) => {
    const { first, all } = await saidByBoth(lines, count);
    expect(first).toHaveLength(before);
    // Sent at once, they may be answered in another order.
    expect(all.toSorted()).toEqual((await saidByServer(lines, count)).toSorted());
  },
);

test('the end of a request that was answered ends no other, under its id either', async () => {
  const ended = request(undefined, 'notifications/cancelled', { requestId: 1 });
  const { first, all } = await saidByBoth([BEGIN, LIST, ended, LIST], 3);
  expect([first.length, all.map((line) => (JSON.parse(line) as { id: unknown }).id)]).toEqual([2, [0, 1, 1]]);
});

/** Any value, mostly of the kind that a member should have. */
function mostly(good: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 60, arbitrary: good }, { weight: 1, arbitrary: fc.jsonValue() });
}

function some(members: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<unknown> {
  return fc.record(Object.fromEntries(Object.entries(members).map(([name, good]) => [name, mostly(good)])), {
    requiredKeys: [],
  });
}

const text = fc.string({ maxLength: 4 });
const anySet = fc.dictionary(text, fc.jsonValue());
const client = fc
  .tuple(
    some({
      title: text,
      description: text,
      websiteUrl: text,
      icons: fc.array(
        some({ src: text, mimeType: text, sizes: fc.array(text), theme: fc.constantFrom('light', 'dark') }),
      ),
    }),
    mostly(text),
    mostly(text),
  )
  .map(([more, name, version]) => Object.assign(more as object, { name, version }));
const capabilities = some({
  experimental: fc.dictionary(text, anySet),
  extensions: fc.dictionary(text, anySet),
  sampling: some({ context: anySet, tools: anySet }),
  elicitation: some({ form: some({ applyDefaults: fc.boolean() }), url: anySet }),
  roots: some({ listChanged: fc.boolean() }),
  tasks: some({
    list: anySet,
    cancel: anySet,
    requests: some({ sampling: some({ createMessage: anySet }), elicitation: some({ create: anySet }) }),
  }),
});
const version = fc.constantFrom('2025-11-25', '2024-11-05', '2026-07-28', '2031-01-01', '');
const handshakes = fc.record(
  {
    protocolVersion: mostly(version),
    capabilities: mostly(capabilities),
    clientInfo: mostly(client),
    _meta: some({ progressToken: fc.integer(), other: fc.jsonValue() }),
  },
  { requiredKeys: ['protocolVersion', 'capabilities', 'clientInfo'] },
);
const envelopes = fc
  .record(
    { protocolVersion: mostly(version), clientCapabilities: mostly(capabilities), clientInfo: mostly(client) },
    { requiredKeys: ['protocolVersion', 'clientCapabilities'] },
  )
  .map((meta) => ({
    _meta: Object.fromEntries(Object.entries(meta).map(([name, value]) => [`io.modelcontextprotocol/${name}`, value])),
  }));

test('of any handshake and any envelope, what is answered is what the server answers', async () => {
  const begun = fc.oneof(
    handshakes.map((params) => request(0, 'initialize', params)),
    envelopes.map((params) => request(0, 'server/discover', params)),
  );
  let answered = 0;
  await fc.assert(
    fc.asyncProperty(begun, async (line) => {
      const answer = new FirstAnswers(ready, AGENT).answerTo(Buffer.from(line));
      if (answer === undefined) return;
      answered++;
      expect([answer]).toEqual(await saidByServer([line], 1));
    }),
    { numRuns: 300 },
  );
  expect(answered).toBeGreaterThan(50);
});
