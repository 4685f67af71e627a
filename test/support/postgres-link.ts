/**
 * A way to a PostgreSQL server on loopback that a test can hold, cut and mend: what lies between two machines.
 *
 * What is held is kept in the link itself. It comes after `release` also when its sender is gone meanwhile, as a
 * network delivers what was sent before a machine died.
 */
import { once } from 'node:events';
import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net';
import { Conversation, type Passing } from './postgres-conversation.ts';

export class PostgresLink {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #ways = new Set<Way>();
  #isCut = false;
  #held: Way['direction'] | undefined;
  #losing: RegExp | undefined;

  private constructor(server: Server, to: number) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (client) => this.#join(client, to));
  }

  static async open(to: number): Promise<PostgresLink> {
    const server = createServer().listen({ host: '127.0.0.1', port: 0 });
    await once(server, 'listening');
    return new PostgresLink(server, to);
  }

  /** What comes from now on is kept until `release`, also that one end has closed. */
  hold(held: Way['direction']): void {
    this.#held = held;
    for (const way of this.#ways) way.isHeld = way.direction === this.#held;
  }

  /** Returns how many bytes wait for `release`. */
  get keptBytes(): number {
    return [...this.#ways].reduce((bytes, way) => bytes + way.keptBytes, 0);
  }

  release(): void {
    this.#held = undefined;
    for (const way of this.#ways) way.release();
  }

  /** Connections end, and new ones too, until `mend`. What was held is lost. */
  cut(): void {
    this.#isCut = true;
    this.#ways.clear();
    for (const socket of this.#sockets) socket.destroy();
  }

  /**
   * The server does what it is asked, and the client never hears of it: cuts the link when the server has answered the
   * next statement whose name or text matches, before a byte of that answer goes on.
   */
  loseAnswer(statement: RegExp): void {
    this.#losing = statement;
  }

  /** All goes on again, and nothing more is cut. */
  mend(): void {
    this.#isCut = false;
    this.#losing = undefined;
    this.release();
  }

  async close(): Promise<void> {
    this.cut();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, 'close');
  }

  #join(client: Socket, port: number): void {
    if (this.#isCut) {
      client.destroy();
      return;
    }
    const server = connect({ host: '127.0.0.1', port });
    const said = new Conversation((statement) => this.#isToBeLost(statement));
    const requests = new Way('requests', client, server, (bytes) => {
      said.asked(bytes);
      server.write(bytes);
    });
    const answers = new Way('answers', server, client, (bytes) => this.#answer(client, said.answered(bytes)));
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    }
    for (const way of [requests, answers]) {
      way.isHeld = way.direction === this.#held;
      this.#ways.add(way);
    }
  }

  #answer(client: Socket, { bytes, isLast }: Passing): void {
    if (this.#isCut) return;
    if (!isLast) {
      client.write(bytes);
      return;
    }
    this.#isCut = true;
    client.end(bytes, () => this.cut());
  }

  #isToBeLost(statement: string): boolean {
    if (!this.#losing?.test(statement)) return false;
    this.#losing = undefined;
    return true;
  }
}

/** One direction of one connection. */
class Way {
  readonly direction: 'requests' | 'answers';
  isHeld = false;
  readonly #to: Socket;
  readonly #pass: (bytes: Buffer) => void;
  #kept: Buffer[] = [];
  #isOver = false;

  constructor(direction: Way['direction'], from: Socket, to: Socket, pass: (bytes: Buffer) => void) {
    this.direction = direction;
    this.#to = to;
    this.#pass = pass;
    from.on('data', (bytes) => (this.isHeld ? void this.#kept.push(bytes) : pass(bytes)));
    // A connection that is reset closes too.
    from.on('error', () => undefined);
    from.on('close', () => {
      this.#isOver = true;
      if (!this.isHeld) to.end();
    });
  }

  get keptBytes(): number {
    return this.#kept.reduce((bytes, { length }) => bytes + length, 0);
  }

  release(): void {
    this.isHeld = false;
    for (const bytes of this.#kept.splice(0)) this.#pass(bytes);
    if (this.#isOver) this.#to.end();
  }
}
