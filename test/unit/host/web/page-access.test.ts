/** The doors of the owner's page over plain HTTP, and what is behind them. */
import { createServer } from 'node:net';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { isoSecond } from '../../../../src/protocol/time.ts';
import { OWNER_ID } from '../../../../src/host/core/rows.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { TOKEN_LIFETIME_MS } from '../../../../src/http/browser-session/sessions.ts';
import { buildPage } from '../../../../scripts/build-pages.ts';
import { accepted, idOf, refused, send } from '../../../support/mail-context.ts';
import { type MailPage, mailPage } from '../../../support/mail-page.ts';
import { type PlainAnswer, plainRequest } from './plain-request.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const ASKED = [
  'mail-conversations',
  'mail-inbox',
  'mail-read-all',
  'mail-send',
  'mail-reply',
  'mail-sent',
  'people',
  'drafts-key',
];
const ACTIONS = [...ASKED, 'leave'];

interface Opened extends MailPage {
  port: number;
  host: string;
  /** A fresh token. */
  token: () => Promise<string>;
  get: (path: string, headers?: Record<string, string>) => Promise<PlainAnswer>;
  post: (path: string, body: unknown, headers?: Record<string, string>) => Promise<PlainAnswer>;
}

async function opened(): Promise<Opened> {
  const pageFolder = await temporaryFolder();
  await buildPage('mail', pageFolder);
  const mail = await mailPage({ pageFolder });
  const url = new URL(await mail.link());
  const port = Number(url.port);
  const host = url.host;
  const token = async (): Promise<string> => (await mail.link()).replace(/^.*#token=/, '');
  const get: Opened['get'] = (path, headers = {}) =>
    plainRequest(port, { path: `/mail${path}`, headers: given({ host, ...headers }) });
  const post: Opened['post'] = (path, body, headers = {}) => {
    const own = { host, origin: `http://${host}`, 'content-type': 'application/json' };
    const all = given({ ...own, ...headers });
    return plainRequest(port, { method: 'POST', path: `/mail${path}`, headers: all, body: JSON.stringify(body) });
  };
  return { ...mail, port, host, token, get, post };
}

/** The headers of somebody who is in. */
async function entered({ token, post }: Opened): Promise<{ cookie: string; 'x-poste-csrf': string }> {
  const answer = await post('/session', { token: await token() });
  expect(answer.status).toBe(200);
  const [line = ''] = answer.headers['set-cookie'] as string[];
  return { cookie: line.split(';')[0] ?? '', 'x-poste-csrf': String(answer.document['csrf']) };
}

function verdict({ status, document }: PlainAnswer): [number, unknown] {
  return [status, document['code']];
}

describe('the link', () => {
  test('is made again after the page could not be read, which keeps nothing from stopping', async () => {
    const pageFolder = join(await temporaryFolder(), 'page');
    await writeFile(pageFolder, 'no folder');
    const mail = await mailPage({ pageFolder });
    await expect(mail.web.link()).rejects.toMatchObject({ code: 'ENOTDIR' });
    await rm(pageFolder);
    await buildPage('mail', pageFolder);
    expect(accepted(await mail.web.link()).url).toContain('/mail/#token=');
    const other = await mailPage({ pageFolder: join(pageFolder, 'page.html') });
    await expect(other.web.link()).rejects.toMatchObject({ code: 'ENOTDIR' });
    await expect(other.web.stop()).resolves.toBeUndefined();
  });

  test('opens a listener that was not there before, on this machine alone', async () => {
    const mail = await mailPage({ listen: { host: '127.0.0.1', port: 0 }, pageFolder: await built() });
    const { url, expires_at } = accepted(await mail.web.link());
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mail\/#token=[A-Za-z0-9_-]{43}$/);
    expect(expires_at).toBe(isoSecond(mail.context.nowMs() + TOKEN_LIFETIME_MS));
    expect(new URL(accepted(await mail.web.link()).url).port).toBe(new URL(url).port);
  });

  test('says what to do when the port is taken, and opens it when it is free', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const mail = await mailPage({ listen: { host: '127.0.0.1', port }, pageFolder: await built() });
    expect(refused(await mail.web.link())).toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringMatching(/another process has it.*web\.listen/),
    });
    expect(mail.web.page).toEqual({ url: null, problem: expect.stringContaining('another process has it') });
    other.close();
    await once(other, 'close');
    expect(accepted(await mail.web.link()).url).toContain(`:${port}/`);
  });

  test('without a port in the config takes one that is free, and keeps it for the next daemon', async () => {
    const pageFolder = await built();
    const [other, next] = [createServer(), createServer()];
    for (const server of [other, next]) await once(server.listen(0, '127.0.0.1'), 'listening');
    const [taken = 0, usual = 0] = [other, next].map((server) => (server.address() as { port: number }).port);
    next.close();
    await once(next, 'close');
    const first = await mailPage({ usualPorts: [taken, usual], pageFolder });
    const { context } = first;
    // Nobody opened the page yet.
    await first.web.reopen();
    expect(first.web.page).toEqual({ url: null, problem: null });
    expect(new URL(await first.link()).port).toBe(String(usual));
    const { url } = first.web.page;
    expect(url).toBe(`http://127.0.0.1:${usual}/mail/`);
    await first.web.stop();

    // What was taken is free now, and the address stays.
    other.close();
    await once(other, 'close');
    const second = await mailPage({ usualPorts: [taken, usual], pageFolder, context });
    await second.web.reopen();
    expect(second.web.page.url).toBe(url);
    // Files of the page that cannot be read do not end a daemon.
    const unread = await mailPage({ usualPorts: [usual], pageFolder: join(pageFolder, 'page.html'), context });
    await unread.web.reopen();
    expect(unread.web.page.url).toBeNull();
    // With all of them taken, any free port is good.
    const third = await mailPage({ usualPorts: [usual], pageFolder, context });
    const port = Number(new URL(await third.link()).port);
    expect([0, usual, taken]).not.toContain(port);
  });

  test('says so when the page was not built', async () => {
    const mail = await mailPage({ pageFolder: await temporaryFolder() });
    expect(refused(await mail.web.link()).message).toContain('npm run build');
  });

  test('becomes a cookie that scripts cannot read and other sites cannot send', async () => {
    const mail = await opened();
    const { headers } = await mail.post('/session', { token: await mail.token() });
    const cookie = `^poste_mail_${mail.port}=[A-Za-z0-9_-]{43}; Path=/mail; HttpOnly; SameSite=Strict; Max-Age=43200$`;
    expect(headers['set-cookie']).toEqual([expect.stringMatching(new RegExp(cookie))]);
  });
});

describe('every door', () => {
  test('is behind the checks of its page, which http/console.test.ts tries one by one', async () => {
    const mail = await opened();
    const [inside, other] = [await entered(mail), await entered(mail)];
    const foreign = { ...inside, host: 'evil.example', origin: 'http://evil.example' };
    for (const path of ['', '/', '/page.js', '/session', '/live'])
      expect(verdict(await mail.get(path, foreign))).toEqual([403, 'FOREIGN_HOST']);
    for (const name of ['session', ...ACTIONS]) {
      expect(verdict(await mail.post(`/${name}`, {}, foreign))).toEqual([403, 'FOREIGN_HOST']);
      const sent = mail.post(`/${name}`, {}, { ...inside, origin: 'http://evil.example' });
      expect(verdict(await sent)).toEqual([403, 'FOREIGN_ORIGIN']);
    }
    for (const half of [{ cookie: '' }, { 'x-poste-csrf': other['x-poste-csrf'] }]) {
      const headers = { ...inside, ...half };
      for (const path of ['/session', '/live'])
        expect(verdict(await mail.get(path, headers))).toEqual([401, 'NO_SESSION']);
      for (const action of ACTIONS)
        expect(verdict(await mail.post(`/${action}`, {}, headers))).toEqual([401, 'NO_SESSION']);
    }
    const left = await mail.post('/leave', {}, inside);
    expect(left.headers['set-cookie']).toEqual([expect.stringContaining('Max-Age=0')]);
    expect(verdict(await mail.get('/session', inside))).toEqual([401, 'NO_SESSION']);
  });

  test('every answer keeps the page to itself', async () => {
    const mail = await opened();
    const inside = await entered(mail);
    const answers = [
      await mail.get('/'),
      await mail.get('/nothing'),
      await mail.get('/', { host: 'evil.example' }),
      await mail.post('/mail-inbox', {}, inside),
      await mail.post('/mail-send', {}, inside),
      await mail.post('/page.js', {}),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 404, 403, 200, 400, 405]);
    for (const { headers } of answers) {
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
      });
      expect(headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self';/);
      expect(headers['content-security-policy']).not.toContain('unsafe');
    }
  });
});

describe('behind them', () => {
  test('a refusal names the field, and nothing is sent', async () => {
    const mail = await opened();
    const inside = await entered(mail);
    const good = { to: ['alice'], subject: 's', body: 'b' };
    const bad: [object, string][] = [
      [{ ...good, subject: 'x'.repeat(201) }, 'subject'],
      [{ ...good, to: Array.from({ length: 21 }, () => 'alice') }, 'to'],
      [{ ...good, kind: 'shout' }, 'kind'],
      [{ ...good, body: 'x'.repeat(262_145) }, 'body'],
      [{ ...good, more: 1 }, 'more'],
    ];
    for (const [input, field] of bad) {
      const answer = await mail.post('/mail-send', input, inside);
      expect([...verdict(answer), (answer.document['details'] as { field: string }).field]).toEqual([
        400,
        'BAD_INPUT',
        field,
      ]);
    }
    expect(verdict(await mail.post('/mail-send', [], inside))).toEqual([400, 'BAD_INPUT']);
    expect(accepted(await useInbox(mail.context, await idOf(mail.context, 'alice'), { state: 'all' })).total).toBe(0);
  });

  test('a body that is too large is refused before it is read', async () => {
    const mail = await opened();
    const inside = await entered(mail);
    const headers = { ...inside, host: mail.host, origin: `http://${mail.host}`, 'content-length': (4 << 20) + 1 };
    const answer = await new Promise<number>((resolve, reject) => {
      const outgoing = request({
        host: '127.0.0.1',
        port: mail.port,
        path: '/mail/mail-send',
        method: 'POST',
        headers,
      });
      outgoing.on('response', ({ statusCode = 0 }) => {
        resolve(statusCode);
        outgoing.destroy();
      });
      outgoing.on('error', reject);
      outgoing.flushHeaders();
    });
    expect(answer).toBe(413);
  });

  test('it is the mailbox of the owner alone, and nothing else of the host', async () => {
    const mail = await opened();
    const inside = await entered(mail);
    accepted(await send(mail.context, 'alice', { to: ['owner'], subject: 'for you' }));
    accepted(await send(mail.context, 'alice', { to: ['bob'], subject: 'for bob' }));
    const answer = await mail.post('/mail-inbox', { state: 'all' }, { ...inside, 'x-poste-agent': 'bob' });
    expect(answer.document['summaries']).toMatchObject([{ subject: 'for you' }]);
    for (const name of ['status', 'add-agent', 'rotate-key', 'web-link', 'outbox']) {
      expect(verdict(await mail.post(`/${name}`, {}, inside))).toEqual([404, 'NOT_FOUND']);
    }
  });

  test('a stream tells that there is something new, and ends when the daemon stops', async () => {
    const mail = await opened();
    const inside = await entered(mail);
    const told: string[] = [];
    const ended = new Promise<void>((resolve, reject) => {
      const headers = { host: mail.host, ...inside };
      const outgoing = request({ host: '127.0.0.1', port: mail.port, path: '/mail/live', headers }, (response) => {
        response.setEncoding('utf8').on('data', (chunk: string) => told.push(chunk));
        response.on('end', resolve);
      });
      outgoing.on('error', reject);
      outgoing.end();
    });
    await expect.poll(() => told.join('')).toContain(': open');
    accepted(await send(mail.context, 'alice', { to: ['owner'], subject: 'a secret' }));
    await expect.poll(() => told.join('')).toContain('event: mail\ndata: {}\n\n');
    expect(told.join('')).not.toContain('secret');
    accepted(await send(mail.context, 'owner', { to: ['bob'] }));
    accepted(await useInbox(mail.context, await idOf(mail.context, 'bob'), {}));
    await expect.poll(() => told.join('')).toContain('event: sent\ndata: {}\n\n');
    await mail.web.stop();
    await ended;
    expect(refused(await mail.web.link()).message).toContain('stopping');
    await expect(mail.get('/')).rejects.toThrow('ECONNREFUSED');
    expect(accepted(await useInbox(mail.context, OWNER_ID, {})).total).toBe(1);
  });
});

async function built(): Promise<string> {
  const folder = await temporaryFolder();
  await buildPage('mail', folder);
  return folder;
}

/** A header that is `''` is left out. */
function given(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ''));
}
