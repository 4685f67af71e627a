import { test } from 'vitest';
import { relayForTest } from '../support/http-relay.ts';
import { RawConnection } from '../support/raw-http.ts';
test('probe', async () => {
  const relay = await relayForTest('uws');
  const INFO = 'GET /v2/relay/info HTTP/1.1\r\nhost: x\r\n';
  const tries: Record<string,string[]> = {
    a: [`${INFO}: b\r\n\r\n`, 'GET /v2/relay/info HTTP/1.1\r\nhost: x\r\n\r\n'],
    b: [`${INFO}: b\r\nx-mail-ts: 1\r\nx-mail-ts: 2\r\n\r\n`,'GET /v2/relay/info HTTP/1.1\r\nhost: x\r\n\r\n'],
    c: [`${INFO}: b\r\n\r\nGET /v2/relay/info HTTP/1.1\r\nhost: x\r\n\r\n`],
    d: [`POST /v1/relay/challenge HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n: b\r\ncontent-length: 44\r\n\r\n{}`, 'GET /v2/relay/info HTTP/1.1\r\nhost: x\r\n\r\n'],
    e: [`POST /v1/relay/challenge HTTP/1.1\r\nhost: x\r\n: b\r\ncontent-length: 2\r\n\r\n{}`, 'GET /v2/relay/info HTTP/1.1\r\nhost: x\r\n\r\n'],
    f: [`POST /v1/relay/challenge HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n: b\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`, 'GET /v2/relay/info HTTP/1.1\r\nhost: x\r\n\r\n'],
    g: [`GET /v2/relay/info HTTP/1.1\r\n: b\r\nhost: x\r\n\r\n`],
  };
  for (const [n, parts] of Object.entries(tries)) {
    const c = await RawConnection.open(relay.port);
    const out: string[] = [];
    for (const p of parts) {
      c.send(p);
      await new Promise((r) => setTimeout(r, 300));
      for (;;) {
        const r = await Promise.race([c.response().catch(String), new Promise<'open'>((r) => setTimeout(() => r('open'), 100))]);
        if (r === 'open') { out.push(`[open ${c.receivedBytes} ${c.isOver}]`); break; }
        if (!r) { out.push('closed'); break; }
        out.push(typeof r === 'string' ? r : `${r.status} ${r.body.toString().slice(0, 150)}`);
      }
    }
    console.log(n, out.join(' || '));
    c.close();
  }
});
