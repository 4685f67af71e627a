/** The protocols in which programs talk to a model, as far as a scripted model needs them. */

export type Answer =
  | { type: 'text'; text: string /** How long the model speaks. */; forMs?: number }
  | { type: 'tool'; name: string; input: Record<string, unknown> };

type Json = Record<string, unknown>;

export interface StreamEvent {
  event?: string;
  data: unknown;
  /** How long to wait before it. */
  pauseMs?: number;
}

export interface Dialect {
  newest: (document: Json) => string;
  tools: (document: Json) => string[];
  isStreamed: (document: Json, path: string) => boolean;
  whole: (answer: Answer) => unknown;
  events: (answer: Answer) => Iterable<StreamEvent>;
}

export function dialectOf(path: string): Dialect | undefined {
  const [route = ''] = path.split('?');
  if (route.endsWith('/messages')) return ANTHROPIC;
  if (route.endsWith('/messages/count_tokens')) return COUNTED;
  if (route.endsWith('/responses')) return OPENAI;
  return /:(?:streamG|g)enerateContent$/.test(route) ? GEMINI : undefined;
}

let made = 0;
const nextId = (): number => ++made;

/** The words of an answer, and the pause before each. */
function* words(answer: { text: string; forMs?: number }): Iterable<{ text: string; pauseMs: number }> {
  const all = answer.forMs === undefined ? [answer.text] : answer.text.split(/(?<=\s)(?=\S)/);
  for (const text of all) yield { text, pauseMs: (answer.forMs ?? 0) / all.length };
}

function list(value: unknown): Json[] {
  return Array.isArray(value) ? (value as Json[]) : [];
}

/** Returns what came after the model's last word, as text. */
function afterLast(messages: readonly Json[], isModels: (message: Json) => boolean): string {
  return JSON.stringify(messages.slice(messages.findLastIndex(isModels) + 1));
}

function named(tool: Json): string {
  return String(tool['name'] ?? tool['type']);
}

/** An event that names itself. */
function part(type: string, rest: Json): StreamEvent {
  return { event: type, data: { type, ...rest } };
}

const ANTHROPIC: Dialect = {
  newest: ({ messages }) => afterLast(list(messages), ({ role }) => role === 'assistant'),
  tools: ({ tools }) => list(tools).map(named),
  isStreamed: ({ stream }) => stream === true,
  whole: (answer) => ({
    ...anthropicMessage(),
    content: [answer.type === 'text' ? { type: 'text', text: answer.text } : anthropicTool(answer)],
    stop_reason: answer.type === 'text' ? 'end_turn' : 'tool_use',
  }),
  *events(answer) {
    yield part('message_start', { message: { ...anthropicMessage(), content: [], stop_reason: null } });
    if (answer.type === 'text') {
      yield part('content_block_start', { index: 0, content_block: { type: 'text', text: '' } });
      for (const { text, pauseMs } of words(answer)) {
        yield { ...part('content_block_delta', { index: 0, delta: { type: 'text_delta', text } }), pauseMs };
      }
    } else {
      yield part('content_block_start', { index: 0, content_block: { ...anthropicTool(answer), input: {} } });
      const delta = { type: 'input_json_delta', partial_json: JSON.stringify(answer.input) };
      yield part('content_block_delta', { index: 0, delta });
    }
    yield part('content_block_stop', { index: 0 });
    const stop_reason = answer.type === 'text' ? 'end_turn' : 'tool_use';
    yield part('message_delta', { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 5 } });
    yield part('message_stop', {});
  },
};

/** Anthropic's count of tokens: no turn, and nothing to stream. */
const COUNTED: Dialect = {
  ...ANTHROPIC,
  tools: () => [],
  isStreamed: () => false,
  whole: () => ({ input_tokens: 10 }),
};

function anthropicMessage(): Json {
  const usage = { input_tokens: 10, output_tokens: 5, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
  return { id: `msg_${nextId()}`, type: 'message', role: 'assistant', model: 'scripted', stop_sequence: null, usage };
}

function anthropicTool({ name, input }: { name: string; input: Json }): Json {
  return { type: 'tool_use', id: `toolu_${nextId()}`, name, input };
}

const OPENAI: Dialect = {
  newest: ({ input }) =>
    afterLast(
      list(input),
      ({ role, type }) => role === 'assistant' || type === 'function_call' || type === 'reasoning',
    ),
  // Tools of an MCP server stand together in a namespace.
  tools: ({ tools }) =>
    list(tools).flatMap((tool) =>
      tool['type'] === 'namespace'
        ? list(tool['tools']).map((inner) => `${named(tool)}${named(inner)}`)
        : [named(tool)],
    ),
  isStreamed: ({ stream }) => stream === true,
  whole: (answer) => ({ ...openaiResponse('completed'), output: [openaiItem(answer, 'completed')] }),
  *events(answer) {
    const item = openaiItem(answer, 'completed');
    yield part('response.created', { response: openaiResponse('in_progress') });
    if (answer.type === 'text') {
      yield part('response.output_item.added', {
        output_index: 0,
        item: { ...item, status: 'in_progress', content: [] },
      });
      for (const { text, pauseMs } of words(answer)) {
        const delta = { item_id: item['id'], output_index: 0, content_index: 0, delta: text };
        yield { ...part('response.output_text.delta', delta), pauseMs };
      }
    } else {
      yield part('response.output_item.added', { output_index: 0, item: { ...item, status: 'in_progress' } });
    }
    yield part('response.output_item.done', { output_index: 0, item });
    yield part('response.completed', { response: { ...openaiResponse('completed'), output: [item] } });
  },
};

function openaiResponse(status: string): Json {
  const usage = {
    input_tokens: 10,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 15,
  };
  return { id: `resp_${nextId()}`, object: 'response', status, model: 'scripted', output: [], usage };
}

function openaiItem(answer: Answer, status: string): Json {
  if (answer.type === 'text') {
    const content = [{ type: 'output_text', text: answer.text, annotations: [] }];
    return { type: 'message', id: `msg_${nextId()}`, role: 'assistant', status, content };
  }
  // The tool of an MCP server is named after its namespace, without the two underscores between them.
  const [, namespace, name = answer.name] = /^(mcp__.+?)__(.+)$/.exec(answer.name) ?? [];
  return {
    type: 'function_call',
    id: `fc_${nextId()}`,
    call_id: `call_${nextId()}`,
    name,
    ...(namespace !== undefined && { namespace }),
    arguments: JSON.stringify(answer.input),
    status,
  };
}

const GEMINI: Dialect = {
  newest: ({ contents }) => afterLast(list(contents), ({ role }) => role === 'model'),
  tools: ({ tools }) => list(tools).flatMap((tool) => list(tool['functionDeclarations']).map(named)),
  isStreamed: (_document, path) => path.includes(':streamGenerateContent'),
  whole: (answer) => geminiChunk(answer.type === 'text' ? { text: answer.text } : geminiCall(answer), true),
  *events(answer) {
    if (answer.type === 'text') {
      for (const { text, pauseMs } of words(answer)) yield { data: geminiChunk({ text }, false), pauseMs };
      yield { data: geminiChunk({ text: '' }, true) };
    } else {
      yield { data: geminiChunk(geminiCall(answer), true) };
    }
  },
};

function geminiCall({ name, input }: { name: string; input: Json }): Json {
  return { functionCall: { name, args: input } };
}

function geminiChunk(part: Json, isLast: boolean): Json {
  const content = { role: 'model', parts: [part] };
  return {
    candidates: [{ content, index: 0, ...(isLast && { finishReason: 'STOP' }) }],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
    modelVersion: 'scripted',
  };
}
