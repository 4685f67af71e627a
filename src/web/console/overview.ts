/**
 * The state of the relay: what is wrong, figures, charts, the biggest queues, refusals and epochs; and its first steps.
 */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type {
  BrokenQueueShown,
  ConsoleFollowing,
  ConsoleOverview,
  ConsoleSample,
  EpochBegun,
  EpochsRead,
  HostShown,
  RefusalCount,
  RelayFault,
} from '../../protocol/operator-documents.ts';
import { Code, type FactRow, Facts, NO_VALUE, Panel, Table, Time, Untrusted } from '../shared/components.ts';
import { ago, bytes, count, countText, duration, rate } from '../shared/format.ts';
import { CommandLine, CopyButton } from '../shared/copy.ts';
import { Charts } from './charts.ts';
import { Keeping } from './keeping.ts';
import { LeadsElsewhere, SharedLog } from './shared-log.ts';
import { RowsCheck } from './rows-check.ts';
import { hostHref, overview, samples, setCommand } from './state.ts';

export function Overview(): VNode {
  const known = overview.value;
  if (!known) return html`<p class="none">Asking the relay…</p>`;
  if (known.role === 'following') return html`<${Following} known=${known} />`;
  const all = samples.value;
  const now = all.at(-1);
  return html`<h1 tabindex="-1">Overview</h1>
    <${Health} known=${known} />
    <${RowsCheck} known=${known} />
    ${known.broken_queues.map((one) => html`<${BrokenQueue} key=${one.host_pubkey} broken=${one} />`)}
    ${known.damaged_rows_found > 0 && html`<${DamagedRows} known=${known} />`}
    ${known.host_keys === 0 && html`<${Welcome} known=${known} />`}
    ${known.shared_log && html`<${SharedLog} log=${known.shared_log} role="leading" nowMs=${known.now} />`}
    ${now && html`<${Figures} now=${now} known=${known} />`}
    <${Charts} />
    <div class="columns">
      <${Panel} title="Biggest queues"><${BiggestQueues} hosts=${known.biggest_queues} /></${Panel}>
      <${Panel} title="Refused in the last hour">
        <${Refusals} refusals=${known.refusals} nowMs=${known.now} />
      </${Panel}>
    </div>
    <${Keeping} known=${known} />
    <${Panel} title="Epochs"><${Epochs} known=${known} /></${Panel}>
    <${Relay} known=${known} />`;
}

/** Shows a relay that follows: what the hosts do is known to the one that leads. */
function Following({ known }: { known: ConsoleFollowing }): VNode {
  return html`<h1 tabindex="-1">Overview</h1>
    <${Health} known=${known} />
    <${SharedLog} log=${known.shared_log} role="following" nowMs=${known.now} />
    <${LeadsElsewhere} leader=${known.shared_log.leader} />
    <${Keeping} known=${known} />
    <${Relay} known=${known} />`;
}

function BrokenQueue({ broken }: { broken: BrokenQueueShown }): VNode {
  const name =
    broken.host === null ? html`<${Code} text=${broken.host_pubkey} />` : html`<${Untrusted} text=${broken.host} />`;
  return html`<p class="warning" role="alert">
    The stored queue of <a href=${hostHref(broken.host_pubkey)}>${name}</a> is inconsistent (<${Untrusted}
      text=${broken.reason}
    />). The relay still delivers its mail, but refuses its acks, expiries and rotations. Stop the relay, and run${' '}
    <${Code} text="poste relay log verify" />.
  </p>`;
}

function DamagedRows({ known }: { known: ConsoleOverview }): VNode {
  const { damaged_rows: names, damaged_rows_found: found } = known;
  const more = found > names.length ? ` and ${found - names.length} more` : '';
  return html`<p class="warning" role="alert">
    Rows of the store are damaged (<${Untrusted} text=${names.join(', ') + more} />). The relay refuses every request
    that needs them. Stop the relay, run <${Code} text="poste relay log verify" />, and
    then <${Code} text="poste relay log rebuild" />.
  </p>`;
}

function Figures({ now, known }: { now: ConsoleSample; known: ConsoleOverview }): VNode {
  const oldest = now.queue_items === 0 && now.oldest_item_age_ms === 0 ? 'none' : duration(now.oldest_item_age_ms);
  const figures: [name: string, value: string, kind?: string][] = [
    ['items accepted', `${rate(now.accepted_per_s)} /s`],
    ['slow writes', now.commit_p99_ms === null ? NO_VALUE : duration(now.commit_p99_ms)],
    ['items waiting', count(now.queue_items)],
    ['bytes waiting', bytes(now.queue_bytes)],
    ['longest wait', oldest],
    ['disk free', bytes(now.disk_free_bytes), now.is_disk_low ? 'bad' : ''],
    ['hosts', count(now.hosts)],
    ['running for', duration(known.uptime_ms)],
  ];
  return html`<dl class="figures">
    ${figures.map(
      ([name, value, kind = '']) => html`<div class="figure ${kind}"><dt>${name}</dt><dd>${value}</dd></div>`,
    )}
  </dl>`;
}

function BiggestQueues({ hosts }: { hosts: readonly HostShown[] }): VNode {
  return html`<${Table}
    label="Biggest queues"
    none="No items are waiting."
    rows=${hosts}
    keyOf=${(host: HostShown) => host.host_pubkey}
    columns=${[
      {
        title: 'host',
        cell: (host: HostShown) => html`<a href=${hostHref(host.host_pubkey)}><${Untrusted} text=${host.host} /></a>`,
      },
      { title: 'items', isNumber: true, cell: (host: HostShown) => count(host.queue_items) },
      { title: 'bytes', isNumber: true, cell: (host: HostShown) => bytes(host.queue_bytes) },
    ]}
  />`;
}

function Refusals({ refusals, nowMs }: { refusals: readonly RefusalCount[]; nowMs: number }): VNode {
  return html`<${Table}
    label="Refused in the last hour"
    none="Nothing was refused."
    rows=${refusals}
    keyOf=${(one: RefusalCount) => `${one.what} ${one.reason}`}
    columns=${[
      { title: 'code', cell: (one: RefusalCount) => html`<${Code} text=${one.reason} />` },
      { title: 'of', cell: (one: RefusalCount) => one.what },
      { title: 'last minute', isNumber: true, cell: (one: RefusalCount) => count(one.last_minute) },
      { title: 'last hour', isNumber: true, cell: (one: RefusalCount) => count(one.last_hour) },
      { title: 'latest', isNumber: true, cell: (one: RefusalCount) => ago(one.last_at, nowMs) },
    ]}
  />`;
}

const EPOCHS_NOTES: Readonly<Record<EpochsRead, string>> = {
  'under way': 'The log is still being read; earlier epochs may appear.',
  whole: '',
  pruned: 'The log was pruned: epochs before its first record are not shown.',
  failed: 'The log could not be read to its beginning; the log messages of the relay say why.',
};

function Epochs({ known }: { known: ConsoleOverview }): VNode {
  return html`<${Table}
      label="Epochs"
      none="No epoch was found yet."
      rows=${known.epochs}
      keyOf=${(one: EpochBegun) => one.lsn}
      columns=${[
        { title: 'began', cell: (one: EpochBegun) => html`<${Time} at=${one.at} />` },
        { title: 'why', cell: (one: EpochBegun) => html`<${Untrusted} text=${one.reason} />` },
        { title: 'epoch', cell: (one: EpochBegun) => html`<${Code} text=${one.epoch} />` },
      ]}
    />
    ${EPOCHS_NOTES[known.epochs_read] && html`<p class="note">${EPOCHS_NOTES[known.epochs_read]}</p>`}`;
}

function Relay({ known }: { known: ConsoleOverview | ConsoleFollowing }): VNode {
  const rows: FactRow[] = [
    ['version', known.version],
    ['HTTP server', known.server],
    ['running for', duration(known.uptime_ms)],
    ['who may enrol', known.role !== 'following' && (WHO_MAY_ENROL[known.admission] ?? known.admission)],
    [
      'fingerprint',
      html`<${Code} text=${known.fingerprint} /> <${CopyButton} text=${known.fingerprint} what="the fingerprint" />`,
    ],
    ['public key', html`<${Code} text=${known.relay_pubkey} />`],
  ];
  return html`<${Panel} title="This relay"><${Facts} rows=${rows} /></${Panel}>`;
}

const WHO_MAY_ENROL: Readonly<Record<string, string>> = { open: 'every host', invite: 'hosts with an invite' };

const RUNBOOK = 'docs/operating.md, What to watch';

function Health({ known }: { known: ConsoleOverview | ConsoleFollowing }): VNode {
  const [worst, ...others] = known.faults;
  if (!worst) {
    return html`<p class="health health-well" role="status"><b>All is well.</b> ${wellText(known)}</p>`;
  }
  return html`<section class="health ${worst.is_critical ? 'health-bad' : 'health-warn'}" aria-label="What is wrong">
    <p role="alert"><${FaultText} fault=${worst} /></p>
    ${
      others.length > 0 &&
      html`<ul>
        ${others.map((fault) => html`<li key=${fault.what}><${FaultText} fault=${fault} /></li>`)}
      </ul>`
    }
  </section>`;
}

function FaultText({ fault }: { fault: RelayFault }): VNode {
  return html`<b><${Untrusted} text=${fault.what} /></b> ${fault.mend}
    ${fault.alert !== null && html`<span class="runbook" title=${RUNBOOK}> ${fault.alert}</span>`}`;
}

function wellText(known: ConsoleOverview | ConsoleFollowing): string {
  const backup = backupText(known);
  if (known.role === 'following') {
    return `This relay follows ${known.shared_log.leader ?? 'nobody'} and is ready to take its place. ${backup}`;
  }
  const now = known.samples.at(-1);
  if (!now) return backup;
  const waiting = now.queue_items === 0 ? 'no mail waits' : `${countText(now.queue_items, 'item')} of mail waiting`;
  return `${countText(now.hosts, 'host')}, ${waiting}. ${backup}`;
}

function backupText({ backups, command_backup_at: commanded, now }: ConsoleOverview | ConsoleFollowing): string {
  const newest = Math.max(backups?.newest?.at ?? 0, commanded ?? 0);
  if (newest > 0) return `The last backup is from ${ago(newest, now)}.`;
  return backups ? 'The first backup is being taken.' : 'No backups are planned.';
}

const ONLY_HERE = /^https?:\/\/(?:127\.|localhost[:/]|\[::1\])/;

function Welcome({ known }: { known: ConsoleOverview }): VNode {
  const { addresses, fingerprint, admission, authority } = known;
  const isOnlyHere = addresses.every((address) => ONLY_HERE.test(address));
  const needsToken = admission === 'invite' || authority === 'account-token';
  const command = setCommand(known, needsToken ? 'invite.txt' : undefined);
  return html`<${Panel} title="The first host">
    <p>
      No host has enrolled yet. Tell the owners of your hosts the address of this relay and the fingerprint of its key:
    </p>
    <dl class="facts">
      <div><dt>address</dt><dd>${addresses.map((address) => html`<${Code} text=${address} />${' '}`)}
        ${
          isOnlyHere &&
          html`<p class="note">
            Only programs of this machine reach it. For others put a proxy before it and tell them its address, or start
            the relay with --listen and --tls-cert.
          </p>`
        }
      </dd></div>
      <div><dt>fingerprint</dt>
        <dd><${Code} text=${fingerprint} /> <${CopyButton} text=${fingerprint} what="the fingerprint" /></dd></div>
    </dl>
    <ol class="next-steps">
      ${
        admission === 'invite' &&
        authority === 'host-key' &&
        html`<li>
          Make an invite for it, <a href="#/invites">here</a> or on this machine, and put it into a file of the host:
        <${CommandLine} text="poste relay admit --label laptop > invite.txt" /></li>`
      }
      ${authority === 'account-token' && html`<li>Get a token of the account service for it.</li>`}
      <li>On the host:
        <${CommandLine} text=${command} /></li>
      <li>See there that it works:
        <${CommandLine} text="poste relay status" /></li>
    </ol>
  </${Panel}>`;
}
