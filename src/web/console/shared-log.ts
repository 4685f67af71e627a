/** The log that several relays share: who leads, what this relay does, how far it is behind, and what is wrong. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type { SharedLogShown } from '../../protocol/operator-documents.ts';
import { Code, type FactRow, Facts, Moment, Panel, Untrusted } from '../shared/components.ts';
import { countText, duration } from '../shared/format.ts';

interface SharedLogProps {
  log: SharedLogShown;
  role: 'leading' | 'following';
  nowMs: number;
}

export function SharedLog({ log, role, nowMs }: SharedLogProps): VNode {
  const {
    leader,
    leading_since: since,
    behind_batches: batches,
    behind_ms: behindMs,
    doubt,
    fences,
    fenced_at: fencedAt,
    settings_differ: differ,
  } = log;
  const moment = (at: number): VNode => html`<${Moment} at=${at} nowMs=${nowMs} />`;
  const own = html`<${Untrusted} text=${log.node} />`;
  const leads = leader === null ? 'No relay leads.' : html`<${Untrusted} text=${leader} /> leads`;
  const rows: FactRow[] = [
    ['who leads', html`${leads}${leader !== null && since !== null && html`, since ${moment(since)}`}`],
    ['this relay', html`${own} ${role === 'leading' ? 'leads: it serves the hosts' : 'follows: it serves no hosts'}`],
    ['behind the log', batches === 0 ? 'nothing' : `${countText(batches, 'batch', 'batches')}, ${duration(behindMs)}`],
    ['answers', log.is_reached ? (log.is_stalled ? 'yes, but it takes nothing' : 'yes') : 'no'],
    ['second copy', log.copy_fault],
    ['in doubt', doubt !== null && html`<${Untrusted} text=${doubt} />`],
    [
      'refused',
      fencedAt !== null && html`${countText(fences, 'time')}, because another relay leads: ${moment(fencedAt)}`,
    ],
    ['snapshot', log.snapshot_at !== null && moment(log.snapshot_at)],
    ['other settings', differ.length > 0 && html`<${Untrusted} text=${differ.join(', ')} />`],
  ];
  return html`<${Panel} title="Shared log"><${Facts} rows=${rows} /></${Panel}>`;
}

/** Says, on a relay that follows, where the hosts, the log and the invites are shown. */
export function LeadsElsewhere({ leader }: { leader: string | null }): VNode {
  const text =
    leader === null
      ? 'No relay leads. The one that leads next shows hosts, log and invites, and checks its rows.'
      : html`The relay that leads shows hosts, log and invites, and checks its rows: run${' '}
          <${Code} text="poste relay console" /> on the machine of <${Untrusted} text=${leader} />.`;
  return html`<p class="note">${text}</p>`;
}
