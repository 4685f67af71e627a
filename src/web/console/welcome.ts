/** What an operator of a relay without hosts does next: the address, the key, and the commands for the first host. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type { ConsoleOverview } from '../../protocol/operator-documents.ts';
import { Code, Panel } from '../shared/components.ts';
import { CopyButton } from '../shared/copy.ts';
import { CommandLine } from './command-line.ts';
import { setCommand } from './state.ts';

const ONLY_HERE = /^https?:\/\/(?:127\.|localhost[:/]|\[::1\])/;

export function Welcome({ known }: { known: ConsoleOverview }): VNode {
  const { addresses, fingerprint, admission, authority } = known;
  const isOnlyHere = addresses.every((address) => ONLY_HERE.test(address));
  const needsToken = admission === 'invite' || authority === 'account-token';
  const command = setCommand(known, needsToken ? 'invite.txt' : undefined);
  return html`<${Panel} title="The first host">
    <p>No host has enrolled yet. Tell the owners of your hosts the address of this relay and the fingerprint of its key:</p>
    <dl class="facts">
      <div><dt>address</dt><dd>${addresses.map((address) => html`<${Code} text=${address} />${' '}`)}
        ${isOnlyHere && html`<p class="note">Only programs of this machine reach it. For others put a proxy before it and tell them its address, or start the relay with --listen and --tls-cert.</p>`}
      </dd></div>
      <div><dt>fingerprint</dt><dd><${Code} text=${fingerprint} /> <${CopyButton} text=${fingerprint} what="the fingerprint" /></dd></div>
    </dl>
    <ol class="next-steps">
      ${
        admission === 'invite' &&
        authority === 'host-key' &&
        html`<li>Make an invite for it, <a href="#/invites">here</a> or on this machine, and put it into a file of the host:
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
