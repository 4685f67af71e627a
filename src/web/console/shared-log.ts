/** The log that several relays share: who leads, what this relay does, how far it is behind, and what is wrong. */
import type { ComponentChildren, VNode } from 'preact';
import { html } from 'htm/preact';
import type { SharedLogShown } from '../../protocol/operator-documents.ts';
import { Code, Facts, Moment, Panel, Untrusted } from '../shared/components.ts';
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
  } = log;
  const moment = (at: number): VNode => html`<${Moment} at=${at} nowMs=${nowMs} />`;
  const own = html`<${Untrusted} text=${log.node} />`;
  const leads = leader === null ? 'No relay leads.' : html`<${Untrusted} text=${leader} /> leads`;
  const rows: [string, ComponentChildren][] = [
    ['who leads', html`${leads}${leader !== null && since !== null && html`, since ${moment(since)}`}`],
    ['this relay', html`${own} ${role === 'leading' ? 'leads: it serves the hosts' : 'follows: it serves no hosts'}`],
    ['behind the log', batches === 0 ? 'nothing' : `${countText(batches, 'batch', 'batches')}, ${duration(behindMs)}`],
    ['answers', log.is_reached ? (log.is_stalled ? 'yes, but it takes nothing' : 'yes') : 'no'],
    ...(log.copy_fault === null ? [] : [['second copy', log.copy_fault] as [string, string]]),
    ...(doubt === null ? [] : [['in doubt', html`<${Untrusted} text=${doubt} />`] as [string, VNode]]),
    ...(fencedAt === null
      ? []
      : [
          ['refused', html`${countText(fences, 'time')}, because another relay leads: ${moment(fencedAt)}`] as [
            string,
            VNode,
          ],
        ]),
    ...(log.snapshot_at === null ? [] : [['snapshot', moment(log.snapshot_at)] as [string, VNode]]),
    ...(log.settings_differ.length === 0
      ? []
      : [['other settings', html`<${Untrusted} text=${log.settings_differ.join(', ')} />`] as [string, VNode]]),
  ];
  return html`<${Panel} title="Shared log"><${Facts} rows=${rows} /></${Panel}>`;
}

/** On a relay that follows: where the hosts, the log and the invites are shown. */
export function LeadsElsewhere({ leader }: { leader: string | null }): VNode {
  const text =
    leader === null
      ? 'No relay leads. The one that leads next shows hosts, log and invites, and checks its rows.'
      : html`The relay that leads shows hosts, log and invites, and checks its rows: run${' '}
          <${Code} text="poste relay console" /> on the machine of <${Untrusted} text=${leader} />.`;
  return html`<p class="note">${text}</p>`;
}
