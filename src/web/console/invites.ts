/** The open invites: making one, whose token is shown once, and revoking one. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import type {
  ConsoleInviteIssued,
  ConsoleInviteRevoked,
  ConsoleInvites,
  InviteShown,
} from '../../protocol/operator-documents.ts';
import { DAY_MS, HOUR_MS } from '../../protocol/limits.ts';
import { act, read } from '../shared/api.ts';
import { NO_VALUE, Panel, Table, Time, Untrusted, Warning } from '../shared/components.ts';
import { CommandLine, CopyButton } from '../shared/copy.ts';
import { SelectField, onValue } from '../shared/fields.ts';
import { count } from '../shared/format.ts';
import { failureText, notice } from '../shared/session.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { overview, samples, setCommand } from './state.ts';

const LIFETIMES: readonly (readonly [string, string])[] = [
  [String(HOUR_MS), 'an hour'],
  [String(DAY_MS), 'a day'],
  [String(7 * DAY_MS), 'a week'],
  [String(30 * DAY_MS), '30 days'],
];
const LIFETIME_DEFAULT = String(7 * DAY_MS);

function openInvites(): Promise<ConsoleInvites> {
  return read<ConsoleInvites>('invites');
}

export function Invites(): VNode {
  // A host may have used one.
  const position = samples.value.at(-1)?.log_position ?? 0;
  const { value: shown, problem, reload } = useLoaded(openInvites, [position], { keptAs: 'invites' });
  const [issued, setIssued] = useState<ConsoleInviteIssued>();
  const revoke = async ({ id, label }: InviteShown): Promise<void> => {
    try {
      const { is_new: isNew } = await act<ConsoleInviteRevoked>('invites/revoke', { id });
      const name = label === '' ? 'The invite' : `The invite for ${label}`;
      notice.value = isNew ? `${name} is revoked.` : `${name} was not open any more.`;
      if (issued?.id === id) setIssued(undefined);
      await reload();
      // The button with the focus no longer exists.
      document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true });
    } catch (error) {
      notice.value = failureText(error);
    }
  };
  return html`<h1 tabindex="-1">Invites</h1>
    <p class="note">
      An invite admits one host.${' '}
      ${
        shown?.admission === 'open' &&
        'This relay admits every host, so no host needs one now: start it with --admission invite.'
      }
    </p>
    <${MakeInvite} made=${(made: ConsoleInviteIssued) => {
      setIssued(made);
      void reload();
    }} />
    ${issued && html`<${IssuedInvite} issued=${issued} forget=${() => setIssued(undefined)} />`}
    <${Warning} text=${problem} />
    ${
      shown &&
      html`<${Panel} title="Open invites">
      <${InviteTable} invites=${shown.invites} revoke=${revoke} />
      ${shown.total > shown.invites.length && html`<p class="note">The newest of ${count(shown.total)} are shown.</p>`}
    </${Panel}>`
    }`;
}

function MakeInvite({ made }: { made: (issued: ConsoleInviteIssued) => void }): VNode {
  const [label, setLabel] = useState('');
  const [lifetime, setLifetime] = useState(LIFETIME_DEFAULT);
  const [problem, setProblem] = useState('');
  const [isUnderWay, setUnderWay] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setUnderWay(true);
    try {
      made(await act<ConsoleInviteIssued>('invites', { label: label.trim(), lifetime_ms: Number(lifetime) }));
      setLabel('');
      setProblem('');
    } catch (error) {
      setProblem(failureText(error));
    }
    setUnderWay(false);
  };
  return html`<form class="filters" onSubmit=${(event: Event) => void submit(event)}>
      <label class="wide"><span>For whom</span>
        <input maxlength="100" placeholder="for example: laptop of Ada" value=${label} onInput=${onValue(setLabel)} />
      </label>
      <${SelectField} label="Valid for" value=${lifetime} options=${LIFETIMES} change=${setLifetime} />
      <button type="submit" disabled=${isUnderWay}>Make an invite</button>
    </form>
    <${Warning} text=${problem} />`;
}

/** The only place where the token is shown. */
function IssuedInvite({ issued, forget }: { issued: ConsoleInviteIssued; forget: () => void }): VNode {
  const known = overview.value;
  const command = known && known.role !== 'following' ? setCommand(known, 'invite.txt') : undefined;
  return html`<${Panel} title="The new invite">
    <p role="status">
      It is shown only now: give it to the owner of the
      host${issued.label !== '' && html` (<${Untrusted} text=${issued.label} />)`}.
      It is valid until <${Time} at=${issued.expires_at} />.
    </p>
    <p class="command-line">
      <code class="untrusted">${issued.token}</code> <${CopyButton} text=${issued.token} what="the invite" />
    </p>
    ${
      command !== undefined &&
      html`<p>Put it into a file of the host, and run there:</p>
        <${CommandLine} text=${command} />`
    }
    <p class="actions"><button type="button" onClick=${forget}>I have given it away</button></p>
  </${Panel}>`;
}

interface InviteTableProps {
  invites: readonly InviteShown[];
  revoke: (invite: InviteShown) => Promise<void>;
}

function InviteTable({ invites, revoke }: InviteTableProps): VNode {
  return html`<${Table}
    label="Open invites"
    none="No invite is open."
    rows=${invites}
    keyOf=${({ id }: InviteShown) => id}
    columns=${[
      {
        title: 'for whom',
        cell: ({ label }: InviteShown) => (label === '' ? NO_VALUE : html`<${Untrusted} text=${label} />`),
      },
      { title: 'made', cell: (one: InviteShown) => html`<${Time} at=${one.issued_at} />` },
      { title: 'valid until', cell: (one: InviteShown) => html`<${Time} at=${one.expires_at} />` },
      {
        title: 'end it',
        cell: (one: InviteShown) =>
          html`<button
            type="button"
            class="danger"
            aria-label=${`Revoke the invite ${one.label === '' ? '' : `for ${one.label}`}`}
            onClick=${() => void revoke(one)}
          >
            Revoke
          </button>`,
      },
    ]}
  />`;
}
