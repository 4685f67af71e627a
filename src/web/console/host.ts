/** One host: what waits for it, how much of its quotas is used, its keys; and the way to keep it out. */
import type { ComponentChildren, VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ConsoleHost, ConsoleRevoked, HostShown } from '../../protocol/operator-documents.ts';
import { act, read } from '../shared/api.ts';
import { Bar } from './bar.ts';
import { Code, NOTHING, Panel, StateMark, Table, Time, Words } from '../shared/parts.ts';
import { failed, notice } from '../shared/session.ts';
import { hostPlace, samples } from './state.ts';
import { count } from '../shared/text.ts';

type Member = ConsoleHost['lineage'][number];

export function Host({ hostKey }: { hostKey: string }): VNode {
  const [shown, setShown] = useState<ConsoleHost>();
  const [problem, setProblem] = useState('');
  // What waits for it changes with the log.
  const position = samples.value.at(-1)?.log_position ?? 0;
  const load = async (): Promise<void> => {
    try {
      setShown(await read<ConsoleHost>('host', { key: hostKey }));
      setProblem('');
    } catch (error) {
      setProblem(failed(error));
    }
  };
  useEffect(() => void load(), [hostKey, position]);

  if (problem && !shown) return html`<h1 tabindex="-1">Host</h1><p class="warning" role="alert">${problem}</p>`;
  if (!shown) return html`<h1 tabindex="-1">Host</h1><p class="none">Asking the relay…</p>`;
  const { host, quotas, lineage } = shown;
  return html`<h1 tabindex="-1"><${Words} text=${host.host} /> <${StateMark} state=${host.state} /></h1>
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
    <div class="columns">
      <${Panel} title="Enrolment">${enrolment(host)}</${Panel}>
      <${Panel} title="Quotas">
        ${quotas.map(({ name, unit, used, max }) => html`<${Bar} label=${`${name}, ${unit}`} used=${used} max=${max} unit=${unit} />`)}
      </${Panel}>
    </div>
    <${Panel} title="Queue and lists">${queue(shown)}</${Panel}>
    <${Panel} title="Keys of this host">
      <${Table}
        label="Keys of this host"
        none="None."
        rows=${lineage}
        keyOf=${(member: Member) => member.host_pubkey}
        columns=${[
          {
            title: 'fingerprint',
            cell: (member: Member) =>
              html`<a href=${hostPlace(member.host_pubkey)}><${Code} text=${member.fingerprint} /></a>`,
          },
          {
            title: 'given up',
            cell: (member: Member) =>
              member.retired_at === null ? 'in use' : html`<${Time} at=${member.retired_at} />`,
          },
        ]}
      />
    </${Panel}>
    <p class="actions">
      <a class="button" href=${`#/log?host=${encodeURIComponent(hostKey)}`}>Events of this host</a>
      ${host.revoked_at === null && html`<${Revoke} host=${host} done=${load} />`}
    </p>`;
}

function facts(rows: readonly (readonly [string, ComponentChildren])[]): VNode {
  return html`<dl class="facts">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function words(text: string | null): ComponentChildren {
  return text === null || text === '' ? NOTHING : html`<${Words} text=${text} />`;
}

function when(at: number | null): ComponentChildren {
  return at === null ? NOTHING : html`<${Time} at=${at} />`;
}

function enrolment(host: HostShown): VNode {
  return facts([
    ['fingerprint', html`<${Code} text=${host.fingerprint} />`],
    ['public key', html`<${Code} text=${host.host_pubkey} />`],
    ['account', words(host.account)],
    ['organisation', words(host.org)],
    ['client', words(host.client_id)],
    ['owner, as it says', words(host.owner_fp)],
    ['let in by', host.authorized_by],
    ['enrolled', when(host.enrolled_at)],
    ['valid until', when(host.valid_until)],
    ['revoked', when(host.revoked_at)],
    ['was ever used', host.seen ? 'yes' : 'no'],
  ]);
}

function queue({ host, ...shown }: ConsoleHost): VNode {
  const pull = shown.last_pull;
  return facts([
    ['last item', count(host.head_seq)],
    ['acked through', count(host.acked_through)],
    [
      'last pull',
      pull === null
        ? 'none since the start'
        : html`<${Time} at=${pull.at} />${pull.through === null ? '' : `, up to ${count(pull.through)}`}`,
    ],
    ['takes mail of', shown.allowed_senders === null ? 'everybody' : `${count(shown.allowed_senders)} senders`],
    ['list published', when(shown.senders_published_at)],
    [
      'encryption key',
      shown.enc_key_published_at === null ? 'none' : html`<${Time} at=${shown.enc_key_published_at} />`,
    ],
  ]);
}

/** Asks for the name, typed: what is revoked never comes back under this key. */
function Revoke({ host, done }: { host: HostShown; done: () => Promise<void> }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState('');
  const [problem, setProblem] = useState('');
  const forget = (): void => {
    setTyped('');
    setProblem('');
  };
  const revoke = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await act<ConsoleRevoked>('revoke', { host_pubkey: host.host_pubkey, confirm: typed });
      dialog.current?.close();
      notice.value = `${host.host} is revoked, for good.`;
      await done();
      // The button that had the focus is gone with what it did.
      document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true });
    } catch (error) {
      setProblem(failed(error));
    }
  };
  return html`<button type="button" class="danger" onClick=${() => dialog.current?.showModal()}>Revoke…</button>
    <dialog ref=${dialog} aria-labelledby="revoke-title" onClose=${forget}>
      <form onSubmit=${(event: Event) => void revoke(event)}>
        <h2 id="revoke-title">Revoke <${Words} text=${host.host} />?</h2>
        <p>
          It can never enrol again under this key. What waits for it (${count(host.queue_items)} items) expires in time.
        </p>
        <label>
          <span>Type its name to confirm</span>
          <input
            autocomplete="off"
            spellcheck=${false}
            value=${typed}
            onInput=${(event: { currentTarget: HTMLInputElement }) => setTyped(event.currentTarget.value)}
          />
        </label>
        ${problem && html`<p class="warning" role="alert">${problem}</p>`}
        <p class="actions">
          <button type="button" onClick=${() => dialog.current?.close()}>Keep it</button>
          <button type="submit" class="danger" disabled=${typed !== host.host}>Revoke for good</button>
        </p>
      </form>
    </dialog>`;
}
