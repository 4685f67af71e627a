/**
 * A model by script, on loopback: the scenario says what it answers, and what it was asked is kept.
 *
 * It speaks Anthropic Messages, OpenAI Responses and Gemini generateContent as far as the programs need it, each
 * streamed or whole (model-dialects.ts).
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as elapsed } from 'node:timers/promises';
import { type Answer, type Dialect, dialectOf } from './model-dialects.ts';

/** What the model was asked. */
export interface Asked {
  atMs: number;
  /** The request's document as text. */
  whole: string;
  /** What came after the model's last word as text: what was typed, what a tool gave, what hooks add. */
  newest: string;
  /** The tools that were offered, under the program's names. */
  tools: readonly string[];
}

/** The answer to a request; undefined is "Done.", and `refused` what an API says that does no more for its user. */
export type Script = (asked: Asked) => Answer | 'refused' | undefined;

const DONE: Answer = { type: 'text', text: 'Done.' };

export class ScriptedModel {
  /** The requests of turns, without those that only name a session or summarise it. */
  readonly turns: Asked[] = [];
  /** Paths that the model does not know. */
  readonly strange: string[] = [];
  script: Script = () => undefined;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      void this.#answer(request, response).catch(() => response.destroy());
    });
  }

  static async start(): Promise<ScriptedModel> {
    const model = new ScriptedModel();
    await new Promise<void>((resolve) => {
      model.#server.listen(0, '127.0.0.1', resolve);
    });
    return model;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let whole = '';
    for await (const chunk of request) whole += String(chunk);
    const path = request.url ?? '/';
    const dialect = request.method === 'POST' ? dialectOf(path) : undefined;
    if (dialect === undefined) {
      this.strange.push(`${request.method} ${path}`);
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":{"message":"not here"}}');
      return;
    }
    const document = JSON.parse(whole) as Record<string, unknown>;
    const asked: Asked = {
      atMs: performance.now(),
      whole,
      newest: dialect.newest(document),
      tools: dialect.tools(document),
    };
    let answer: Answer | 'refused' = DONE;
    // Without tools it is not the agent that asks.
    if (asked.tools.length > 0) {
      this.turns.push(asked);
      answer = this.script(asked) ?? DONE;
    }
    if (answer === 'refused') {
      const error = { type: 'invalid_request_error', message: 'Your credit balance is too low.' };
      response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ type: 'error', error }));
      return;
    }
    await speak(response, dialect, answer, dialect.isStreamed(document, path));
  }
}

async function speak(response: ServerResponse, dialect: Dialect, answer: Answer, isStreamed: boolean): Promise<void> {
  if (!isStreamed) {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(dialect.whole(answer)));
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  for (const { event, data, pauseMs } of dialect.events(answer)) {
    if (pauseMs) await elapsed(pauseMs);
    if (response.destroyed) return;
    const named = event === undefined ? '' : `event: ${event}\n`;
    response.write(`${named}data: ${JSON.stringify(data)}\n\n`);
  }
  response.end();
}
