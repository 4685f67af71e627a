/** The host of the pictures: a daemon whose agents write to their owner. */
import { DaemonClient } from '../../src/host/api/client.ts';
import { startDaemon } from '../../src/host/daemon.ts';
import { initialiseHost } from '../../src/host/init.ts';
import { ownPaths } from '../../src/host/base/paths.ts';
import { parseHostName } from '../../src/protocol/names.ts';
import { liveAt } from './clock.ts';

const ON_LOOPBACK = { host: '127.0.0.1', port: 0 };

interface ShownHost {
  /** A one-time link to the owner's page. */
  link: () => Promise<string>;
  newestSubject: string;
  stop: () => Promise<void>;
}

interface Mail {
  minutesBefore: number;
  as: string;
  subject: string;
  body: string;
  to?: string;
  kind?: string;
  needsReply?: boolean;
}

const BACKUP_PLAN = `The nightly backup takes **14 minutes** now. Two changes would help:

1. Compress in chunks.
2. Skip the tables that did not change.

\`\`\`diff
-  for (const table of tables) await copy(table);
+  for (const table of changed(tables)) await copy(table);
\`\`\`

Shall I do both?`;

const MAILS: readonly Mail[] = [
  { minutesBefore: 2900, as: 'tester', subject: 'Suite of fix-7', body: 'All 212 tests pass on the lab machine.' },
  {
    minutesBefore: 1500,
    as: 'builder',
    subject: 'Release 0.4.1 is out',
    body: 'The packages are published, and the notes are in CHANGELOG.md.',
    kind: 'status',
  },
  {
    minutesBefore: 310,
    as: 'reviewer',
    subject: 'Two questions about the parser',
    body: 'Is an empty header allowed? And may a line be longer than 998 characters?',
    needsReply: true,
  },
  {
    minutesBefore: 95,
    as: 'tester',
    subject: 'One test is slow on arm64',
    body: 'relay-restart takes 41 s there and 3 s here. I look at the disk first.',
  },
  { minutesBefore: 42, as: 'planner', subject: 'A shorter nightly backup', body: BACKUP_PLAN, needsReply: true },
  {
    minutesBefore: 6,
    as: 'reviewer',
    subject: 'Branch fix-9 is ready to merge',
    body: 'I read it twice. The only change since yesterday is the name of the flag.',
  },
];

export async function startShownHost(folder: string, relayUrl: string): Promise<ShownHost> {
  const paths = ownPaths({ env: { POSTE_HOME: folder } });
  const hostName = parseHostName('desk');
  if (hostName === undefined) throw new Error('desk is a host name');
  liveAt(3000);
  await initialiseHost(paths, hostName, Date.now());
  const config = {
    lanListen: ON_LOOPBACK,
    lanAdvertise: undefined,
    webListen: ON_LOOPBACK,
    retentionDays: 90,
    remindAfterHours: 24,
    logLevel: 'silent',
    retryFirstSeconds: 1,
    retryLongestSeconds: 60,
    relayPollSeconds: 15,
    relayRetryElsewhereSeconds: 300,
    relaySecondCopySeconds: 3600,
  } as const;
  const daemon = await startDaemon({ paths, config, version: '0.1.0', log: () => undefined, linesLost: () => 0 });
  const client = new DaemonClient(paths.socket, paths.store);
  for (const [name, roles] of [
    ['builder', ['build']],
    ['reviewer', ['review']],
    ['tester', ['test']],
    ['planner', []],
  ] as const) {
    await client.call('add-agent', { name, roles: [...roles] });
  }
  for (const { minutesBefore, as, to = 'owner', subject, body, kind, needsReply } of MAILS) {
    liveAt(minutesBefore);
    const mail = { to: [to], subject, body, ...(kind && { kind }), ...(needsReply && { needs_reply: true }) };
    await client.call('mail-send', mail as never, { as });
  }
  liveAt(0);
  await client.call('relay-set', { url: relayUrl });
  return {
    link: async () => (await client.call('web-link', {})).url,
    newestSubject: MAILS.at(-1)?.subject ?? '',
    stop: () => daemon.stop(),
  };
}
