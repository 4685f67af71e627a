import { expect, test } from 'vitest';
import type { Check } from '../../../../src/host/contract/daemon.ts';
import {
  daemonChecks,
  type DaemonFacts,
  placeChecks,
  type PlaceFacts,
  type StoreFacts,
} from '../../../../src/host/doctor/local-checks.ts';
import { type MailFacts, type WakeFacts, mailChecks, wakeCheck } from '../../../../src/host/doctor/mail-checks.ts';
import {
  copyChecks,
  type HomeFacts,
  type OwnKeyFacts,
  type PeerFacts,
  type PeerProbe,
  lanChecks,
  ownKeyCheck,
  peerCheck,
} from '../../../../src/host/doctor/peer-checks.ts';
import { agoText, spanText } from '../../../../src/host/core/spans.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** The checks that are not well: state, subject and command. */
function wrong(checks: readonly Check[]): unknown[] {
  return checks.flatMap(({ id, about, state, command }) => (state === 'ok' ? [] : [[state, about ?? id, command]]));
}

/** The words of every check. */
function words(checks: readonly Check[]): string[] {
  return checks.map(({ id, state, sentence }) => `${id} ${state}: ${sentence}`);
}

const PLACE: PlaceFacts = {
  config: { path: '/h/config.toml', isThere: true, fault: null },
  folders: [
    { path: '/h', holdsKeys: false, found: { isFolder: true, isOwn: true, mode: 0o40755 } },
    { path: '/h/store', holdsKeys: true, found: { isFolder: true, isOwn: true, mode: 0o40700 } },
  ],
  socket: { path: '/h/daemon.sock', fault: null, home: null },
  freeBytes: 5e9,
};
const [home, store] = [PLACE.folders[0]!, PLACE.folders[1]!];
const storeWith = (changes: object) => ({ folders: [home, { ...store, found: { ...store.found!, ...changes } }] });

test.each<[given: string, then: unknown[], when: Partial<PlaceFacts>]>([
  ['a host as init makes it', [], {}],
  ['no config file', [], { config: { ...PLACE.config, isThere: false } }],
  [
    'a config file that is not understood',
    [['broken', 'config', '$EDITOR /h/config.toml']],
    { config: { ...PLACE.config, fault: { message: 'line 3: no', variable: null } } },
  ],
  [
    'a variable that is not understood',
    [['broken', 'config', 'unset POSTE_LOG_LEVEL']],
    { config: { ...PLACE.config, fault: { message: 'no', variable: 'POSTE_LOG_LEVEL' } } },
  ],
  ['a store that others may read', [['broken', '/h/store', 'chmod 700 /h/store']], storeWith({ mode: 0o40750 })],
  [
    "a store that is another user's",
    [['broken', '/h/store', 'sudo chown -R "$(id -un)" /h/store']],
    storeWith({ isOwn: false }),
  ],
  ['a store that is a file', [['broken', '/h/store', 'mv /h/store /h/store.aside']], storeWith({ isFolder: false })],
  [
    'a home that others may write to, with a space in its name',
    [['broken', '/h x', "chmod go-w '/h x'"]],
    { folders: [{ ...home, path: '/h x', found: { ...home.found!, mode: 0o40777 } }, store] },
  ],
  ['a home with the sticky bit', [], { folders: [{ ...home, found: { ...home.found!, mode: 0o41777 } }, store] }],
  ['a folder that is not there yet', [], { folders: [{ ...home, found: null }, store] }],
  [
    'a path that is too long for a socket',
    [['broken', 'socket', 'ln -s /h ~/.poste && export POSTE_HOME=~/.poste']],
    { socket: { path: '/h/daemon.sock', fault: 'too long', home: '/h' } },
  ],
  [
    'a path that is too long, in the folders of the desktop',
    [['broken', 'socket', 'export XDG_RUNTIME_DIR=/run/user/$(id -u)']],
    { socket: { path: '/h/daemon.sock', fault: 'too long', home: null } },
  ],
  ['little room', [['note', 'disk', 'df -h /h/store']], { freeBytes: 500e6 }],
  ['no room', [['broken', 'disk', 'df -h /h/store']], { freeBytes: 1e6 }],
  ['room that cannot be told', [], { freeBytes: null }],
])('of the place: %s', (_given, then, when) => {
  expect(wrong(placeChecks({ ...PLACE, ...when }))).toEqual(then);
});

test('what is well of the place is said too', () => {
  expect(words(placeChecks(PLACE))).toEqual([
    'config ok: /h/config.toml is understood',
    'folder ok: /h is yours (mode 0755)',
    'folder ok: /h/store is yours (mode 0700)',
    'socket ok: /h/daemon.sock',
    'disk ok: 5.0 GB are free',
  ]);
});

test.each<[given: string, freeBytes: number, then: string]>([
  ['one byte too few', (64 << 20) - 1, 'disk broken: 67 MB are free: the daemon ends at the first write that fails'],
  ['just enough', 64 << 20, 'disk note: 67 MB are free'],
  ['one byte too few to be at ease', (1 << 30) - 1, 'disk note: 1073 MB are free'],
  ['enough to be at ease', 1 << 30, 'disk ok: 1.1 GB are free'],
])('of the room on the disk: %s', (_given, freeBytes, then) => {
  expect(words(placeChecks({ ...PLACE, freeBytes })).at(-1)).toBe(then);
});

test('little room is looked for where the user stands as long as no folder holds keys', () => {
  expect(wrong(placeChecks({ ...PLACE, folders: [home], freeBytes: 0 }))).toEqual([['broken', 'disk', 'df -h .']]);
});

const refused = (fault: Extract<StoreFacts, { type: 'refused' }>['fault']): DaemonFacts => ({
  type: 'absent',
  store: { type: 'refused', fault, message: 'the store is so' },
});
const NOT_RUNNING = ['broken', 'daemon', 'poste daemon'];

test.each<[given: string, facts: DaemonFacts, then: unknown[]]>([
  ['one that runs', { type: 'running', version: '1', pid: 7 }, []],
  ['another version', { type: 'running', version: '2', pid: 7 }, [['note', 'daemon', 'poste daemon restart']]],
  ['none, and a good store', { type: 'absent', store: { type: 'opens' } }, [NOT_RUNNING]],
  ["none, and another user's store", { type: 'absent', store: { type: 'foreign' } }, [NOT_RUNNING]],
  ['no host at all', refused('absent'), [['broken', 'store', 'poste init']]],
  ['a store that is held', refused('locked'), [['broken', 'daemon', "pgrep -af 'poste|cli/main'"]]],
  ['a damaged store', refused('damaged'), [['broken', 'store', 'poste restore <backup>'], NOT_RUNNING]],
  ['a newer store', refused('newer'), [['broken', 'store', null], NOT_RUNNING]],
  ['an unusable store', refused('unusable'), [['broken', 'store', 'ls -la /h/store'], NOT_RUNNING]],
  [
    'one that does not know what it is asked',
    { type: 'other-version' },
    [['broken', 'daemon', 'poste daemon restart']],
  ],
  ["another user's", { type: 'unusable', code: 'NOT_THE_OWNER', message: 'no' }, [['broken', 'daemon', null]]],
  ["maybe another's", { type: 'unusable', code: 'SOCKET_NOT_TRUSTED', message: 'no' }, [['broken', 'daemon', null]]],
  [
    'one that says nothing',
    { type: 'unusable', code: 'DAEMON_SILENT', message: 'no' },
    [['broken', 'daemon', 'poste daemon restart']],
  ],
])('of the daemon: %s', (_given, facts, then) => {
  expect(wrong(daemonChecks(facts, { version: '1', store: '/h/store', isUnit: false }))).toEqual(then);
});

function said(facts: DaemonFacts): string[] {
  return words(daemonChecks(facts, { version: '1', store: '/h/store', isUnit: false }));
}

test('each state of the daemon has its own sentence, and a good store one beside it', () => {
  expect(said({ type: 'running', version: '1', pid: 7 })).toEqual([
    'daemon ok: runs as process 7, version 1',
    'store ok: /h/store is open',
  ]);
  expect(said({ type: 'other-version' })).toEqual([
    'daemon broken: the running daemon is of another version than this command',
  ]);
  expect(said({ type: 'absent', store: { type: 'opens' } })).toEqual([
    'daemon broken: does not run: nothing is sent or received, and no agent is woken',
    'store ok: /h/store opens',
  ]);
});

test('a daemon that systemd keeps is started by systemd', () => {
  const place = { version: '1', store: '/h/store', isUnit: true };
  const start = wrong(daemonChecks({ type: 'absent', store: { type: 'opens' } }, place));
  expect(start).toEqual([['broken', 'daemon', 'poste daemon restart']]);
  const restart = wrong(daemonChecks({ type: 'running', version: '2', pid: 7 }, place));
  expect(restart).toEqual([['note', 'daemon', 'poste daemon restart']]);
});

test('a listener is missed only while a host is paired', () => {
  const down = { listen: '0.0.0.0:8789', port: null };
  expect(lanChecks(down, 0)).toEqual([]);
  expect(wrong(lanChecks(down, 1))).toEqual([['broken', 'lan-listener', "ss -ltnp 'sport = :8789'"]]);
  expect(words(lanChecks({ ...down, port: 8789 }, 1))).toEqual([
    'lan-listener ok: paired hosts are listened for at port 8789',
  ]);
});

const PEER: PeerFacts = {
  host: 'server',
  address: '10.0.0.2:8789',
  reachedAtMs: NOON_MS - 3 * DAY_MS,
  mailFails: false,
  waiting: 0,
  oldestAtMs: null,
  refusedByList: 0,
  probe: null,
  atRelay: 'absent',
};
const ANSWERED: PeerProbe = { type: 'answered', agents: 2, aheadMs: 0, isDoubted: false };
const UNREACHED: PeerProbe = { type: 'unreached', reason: 'it did not answer (ECONNREFUSED)' };
const WAITING = { waiting: 2, oldestAtMs: NOON_MS - 3 * 3_600_000 };
const ADDRESS = 'poste peer address server <host:port>';

test.each<[given: string, when: Partial<PeerFacts>, state: Check['state'], command: string | null, words: RegExp]>([
  ['it answers', { probe: ANSWERED }, 'ok', null, /answers at 10\.0\.0\.2:8789, 2 agents$/],
  [
    'it answers, and mail to it fails and goes over the relay',
    { probe: ANSWERED, mailFails: true, atRelay: 'carried' },
    'ok',
    null,
    /the last mail to it failed there; its mail goes over the relay$/,
  ],
  [
    'it answers, and mail to it fails and waits',
    { probe: ANSWERED, mailFails: true, ...WAITING },
    'broken',
    ADDRESS,
    /failed there, and it is not at the relay either/,
  ],
  [
    'it does not prove where it is',
    { probe: { ...ANSWERED, isDoubted: true } },
    'note',
    ADDRESS,
    /does not prove.*tunnel/,
  ],
  ["its clock is almost as this host's", { probe: { ...ANSWERED, aheadMs: -30_000 } }, 'ok', null, /2 agents$/],
  ['its clock is off by more', { probe: { ...ANSWERED, aheadMs: 30_001 } }, 'note', 'timedatectl', /by 30 seconds$/],
  ['its clock is off', { probe: { ...ANSWERED, aheadMs: -120_000 } }, 'note', 'timedatectl', /differ by 2 minutes/],
  ['it is out of reach and nothing waits', { probe: UNREACHED }, 'note', ADDRESS, /ECONNREFUSED.*3 days ago$/],
  [
    'it is out of reach and mail waits',
    { probe: UNREACHED, ...WAITING },
    'broken',
    ADDRESS,
    /not at the relay either.*2 messages wait for it, the oldest for 3 hours$/,
  ],
  [
    'it is out of reach, and the relay is too',
    { probe: UNREACHED, atRelay: 'not-seen' },
    'note',
    ADDRESS,
    /does not say/,
  ],
  [
    'it is out of reach, without a relay',
    { probe: UNREACHED, atRelay: 'no-relay' },
    'note',
    ADDRESS,
    /no relay is set/,
  ],
  [
    'the relay carries for it',
    { probe: UNREACHED, atRelay: 'carried', ...WAITING },
    'ok',
    null,
    /over the relay; 2 mess/,
  ],
  [
    'the relay refuses by its list',
    { probe: UNREACHED, atRelay: 'carried', ...WAITING, refusedByList: 2 },
    'broken',
    'poste peer invite',
    /takes no mail from this host.*2 messages are refused; 2 messages wait for it, the oldest for 3 hours; pair again$/,
  ],
  [
    'the relay refuses one message by its list',
    { probe: UNREACHED, atRelay: 'carried', refusedByList: 1 },
    'broken',
    'poste peer invite',
    /: 1 message is refused; pair again$/,
  ],
  ['it answers again what the relay refused', { probe: ANSWERED, ...WAITING, refusedByList: 2 }, 'ok', null, /answers/],
  [
    'nobody knows where it is',
    { probe: { type: 'no-address' }, address: null, reachedAtMs: null },
    'note',
    ADDRESS,
    /^no address of it on the LAN is known, and .*; it was never reached$/,
  ],
  [
    'another host has its address',
    { probe: { type: 'another-host', fingerprint: 'SHA256:x' }, waiting: 1, oldestAtMs: NOON_MS - 5000 },
    'broken',
    ADDRESS,
    /has the key SHA256:x and not its own.*1 message waits for it, for 5 seconds$/,
  ],
  [
    'it has forgotten this host',
    { probe: { type: 'refused', code: 'NOT_ENROLLED', reason: 'no' } },
    'broken',
    'poste peer invite',
    /not paired with this host any more/,
  ],
  [
    'it refuses the clock of this host',
    { probe: { type: 'refused', code: 'CLOCK_SKEW', reason: 'no' } },
    'broken',
    'timedatectl set-ntp true',
    /more than 5 minutes/,
  ],
  [
    'it refuses otherwise',
    { probe: { type: 'refused', code: '', reason: 'it said 500' } },
    'broken',
    'poste outbox',
    /it said 500/,
  ],
  ['nobody was asked', { ...WAITING }, 'note', null, /last reached 3 days ago; 2 messages/],
])('of a paired host: %s', (_given, when, state, command, words) => {
  const check = peerCheck({ ...PEER, ...when }, NOON_MS);
  expect([check.state, check.about, check.command]).toEqual([state, 'server', command]);
  expect(check.sentence).toMatch(words);
});

const BOB = { host: 'bob', isAnswering: true };
const CAROL = { host: 'carol', isAnswering: false };

test.each<[given: string, when: OwnKeyFacts, then: unknown[], words: RegExp]>([
  ['everybody knows', { unaware: [], atRelay: 'not-shown' }, [], /^$/],
  [
    'those who do not answer',
    { unaware: [BOB], atRelay: 'not-shown' },
    [['note', 'own-key', null]],
    /new key yet: bob; the daemon sends it over the LAN/,
  ],
  [
    'the relay shows it',
    { unaware: [BOB, CAROL], atRelay: 'shown' },
    [['note', 'own-key', null]],
    /new key yet: bob, carol; the relay shows/,
  ],
  [
    'nothing tells one of them',
    { unaware: [BOB, CAROL], atRelay: 'not-shown' },
    [['broken', 'own-key', 'poste peer address carol <host:port>']],
    /bob, carol; the LAN does not reach carol, and the relay shows no record/,
  ],
  [
    'there is no relay',
    { unaware: [CAROL], atRelay: 'no-relay' },
    [['broken', 'own-key', 'poste peer address carol <host:port>']],
    /no relay is set: mail waits/,
  ],
])('of the new key of this host: %s', (_given, when, then, words) => {
  const checks = ownKeyCheck(when);
  expect(wrong(checks)).toEqual(then);
  expect(checks.map(({ sentence }) => sentence).join('')).toMatch(words);
});

test.each<[given: string, when: Omit<HomeFacts, 'host'>, then: unknown[], words: RegExp]>([
  ['nothing', { twinAtMs: null, later: null }, [], /^$/],
  [
    'two lists of its relays',
    { twinAtMs: NOON_MS - DAY_MS, later: null },
    [['note', 'bob', null]],
    /^showed two lists of its relays with one number, 24 hours ago: two copies/,
  ],
  [
    'a later list of the relays of this host',
    { twinAtMs: null, later: { atMs: NOON_MS - 2 * DAY_MS, over: 'the LAN' } },
    [['note', 'bob', 'poste relay list']],
    /^held a later list of this host's relays than this host, 2 days ago over the LAN: this host was set back/,
  ],
  ['both, a month ago', { twinAtMs: NOON_MS - 30 * DAY_MS, later: { atMs: 0, over: 'the LAN' } }, [], /^$/],
])('of a paired host that showed %s', (_given, when, then, words) => {
  const checks = copyChecks([{ host: 'bob', ...when }], NOON_MS);
  expect(wrong(checks)).toEqual(then);
  expect(checks.map(({ sentence }) => sentence).join('')).toMatch(words);
});

const MAIL: MailFacts = {
  outbox: {
    pending: { count: 0, oldestAtMs: null, lastError: null },
    unconfirmed: { count: 0, oldestAtMs: null },
    refusedReceipts: { count: 0, lastError: null },
  },
  quarantine: { items: 0, bare: 0, dropped: 0 },
};
const count = (of: keyof MailFacts['outbox'], facts: object): Partial<MailFacts> => ({
  outbox: { ...MAIL.outbox, [of]: { ...MAIL.outbox[of], ...facts } },
});
const pending = (ageMs: number) => count('pending', { count: 3, oldestAtMs: NOON_MS - ageMs, lastError: 'no answer' });
const unconfirmed = (of: number, ageMs: number) => count('unconfirmed', { count: of, oldestAtMs: NOON_MS - ageMs });
const refusedReceipts = (of: number) => count('refusedReceipts', { count: of, lastError: 'rejected:x' });
const quarantined = (items: number, bare: number, dropped = 0) => ({ quarantine: { items, bare, dropped } });
const OUTBOX = 'poste outbox';
const RECEIPTS = 'poste outbox list --receipts';
const QUARANTINE = 'poste quarantine';
const DISCARD = 'poste quarantine discard <number>';
const TAKEN = 'taken and not confirmed yet, the oldest';
const NOT_LEARNT = 'senders do not learn what arrived';
const NOT_SHOWN = 'of hosts that are not paired cannot be shown any more';
const FULL = 'it is full: 1 of them came without room for the bytes and must come again';
const UNTRIED = count('pending', { count: 1, oldestAtMs: NOON_MS - MINUTE_MS });

/** The sentences and the commands of those checks that are not as they are when there is nothing. */
test.each<[command: string | null, says: string, when: Partial<MailFacts>]>([
  [null, 'outbox ok: 1 message waits to be sent, the oldest for 60 seconds', UNTRIED],
  [OUTBOX, 'outbox note: 3 messages wait to be sent, the oldest for 15 minutes; LAST', pending(15 * MINUTE_MS)],
  [OUTBOX, 'outbox broken: 3 messages wait to be sent, the oldest for 3 days; LAST', pending(3 * DAY_MS)],
  [null, `outbox ok: 1 message was ${TAKEN} 2 hours ago`, unconfirmed(1, 120 * MINUTE_MS)],
  [OUTBOX, `outbox note: 2 messages were ${TAKEN} 24 hours ago`, unconfirmed(2, DAY_MS)],
  [RECEIPTS, `outbox note: 1 delivery receipt is refused (rejected:x): ${NOT_LEARNT}`, refusedReceipts(1)],
  [RECEIPTS, `outbox note: 2 delivery receipts are refused (rejected:x): ${NOT_LEARNT}`, refusedReceipts(2)],
  [QUARANTINE, 'quarantine note: 1 item came and was not let in', quarantined(1, 0)],
  [QUARANTINE, `quarantine note: 9 items came and were not let in; 4 ${NOT_SHOWN}`, quarantined(9, 0, 4)],
  [DISCARD, `quarantine broken: 10 items came and were not let in; ${FULL}`, quarantined(10, 1)],
])('of mail: %s for %s', (command, says, when) => {
  const nothing = mailChecks(MAIL, NOON_MS);
  expect(words(nothing)).toEqual(['outbox ok: nothing waits to be sent', 'quarantine ok: nothing is in quarantine']);
  const usual = new Set(words(nothing));
  const checks = mailChecks({ ...MAIL, ...when }, NOON_MS).filter((check) => !usual.has(words([check])[0] ?? ''));
  expect(words(checks)).toEqual([says.replace('LAST', 'the last attempt for it: no answer')]);
  expect(checks.map((check) => check.command)).toEqual([command]);
});

const AGENT: WakeFacts = { agent: 'reviewer', unreadWaking: 0, liveSessions: 0, methods: [], faults: [] };
const INSTALL = 'poste setup';
const NO_SESSION = 'has no session now: mail waits for its next one';
const NO_WAY = 'cannot be woken: its 1 session named no way';
const UNREAD = 'unread: 2 messages that should wake it';
const HOOK: Partial<WakeFacts> = { liveSessions: 1, methods: ['hook'], unreadWaking: 2 };
const HOOKS: Partial<WakeFacts> = { liveSessions: 3, methods: ['hook', 'tmux', 'hook'], unreadWaking: 1 };
const TMUX: Partial<WakeFacts> = { liveSessions: 1, methods: ['tmux'], faults: ['its tmux pane %1 is not there'] };

test.each<[command: string | null, says: string, when: Partial<WakeFacts>]>([
  [null, `wake ok: ${NO_SESSION}`, {}],
  [INSTALL, `wake note: ${NO_SESSION}; ${UNREAD}`, { unreadWaking: 2 }],
  [null, `wake ok: ${NO_WAY}`, { liveSessions: 1 }],
  [INSTALL, `wake note: ${NO_WAY}; ${UNREAD}`, { liveSessions: 1, unreadWaking: 2 }],
  [null, `wake ok: can be woken by hook; ${UNREAD}`, HOOK],
  [null, 'wake ok: can be woken by hook, tmux; unread: 1 message that should wake it', HOOKS],
  ['poste session list --as reviewer', 'wake broken: its tmux pane %1 is not there', TMUX],
])('of an agent: %s for %s', (command, says, when) => {
  const check = wakeCheck({ ...AGENT, ...when });
  expect(words([check])).toEqual([says]);
  expect([check.about, check.command]).toEqual(['reviewer', command]);
});

test.each<[ms: number, span: string, ago: string]>([
  [-1, '0 seconds', 'a moment ago'],
  [999, '0 seconds', 'a moment ago'],
  [1999, '1 second', 'a moment ago'],
  [2000, '2 seconds', '2 seconds ago'],
  [119_999, '119 seconds', '119 seconds ago'],
  [120_000, '2 minutes', '2 minutes ago'],
  [7_199_999, '119 minutes', '119 minutes ago'],
  [7_200_000, '2 hours', '2 hours ago'],
  [172_800_000, '2 days', '2 days ago'],
])('%i ms are told in the largest unit that is twice in it', (ms, span, ago) => {
  expect([spanText(ms), agoText(ms)]).toEqual([span, ago]);
});
