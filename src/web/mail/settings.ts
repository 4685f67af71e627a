/** The settings of this browser: notifications and keys. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { Panel, Warning } from '../shared/components.ts';
import { SelectField } from '../shared/fields.ts';
import { openKeys } from './keys.ts';
import { canNotify } from './notify.ts';
import { type Settings, changeSettings, settings } from './settings-store.ts';

const NOTIFY_TEXTS: Readonly<Record<Settings['notify'], string>> = {
  off: 'None',
  sender: 'Who wrote',
  subject: 'Who wrote, and the subject',
};

export function SettingsView(): VNode {
  const { keys } = settings.value;
  return html`<h1 tabindex="-1">Settings</h1>
    <p class="note">They belong to this browser.</p>
    <${Panel} title="Notifications"><${NotificationSetting} /></${Panel}>
    <${Panel} title="Keys">
      <label class="switch">
        <input type="checkbox" checked=${keys} onChange=${() => changeSettings({ keys: !keys })} />
        <span>Single keys act: j and k move, e is done, and so on</span>
      </label>
      <p class="actions"><button type="button" onClick=${openKeys}>Show the keys</button></p>
    </${Panel}>`;
}

function NotificationSetting(): VNode {
  const [problem, setProblem] = useState('');
  if (!canNotify()) return html`<p class="none">This browser has no notifications.</p>`;
  const change = async (value: string): Promise<void> => {
    const notify = value as Settings['notify'];
    // The browser asks its user only now, as the answer to a click.
    const isAllowed = notify === 'off' || (await Notification.requestPermission()) === 'granted';
    setProblem(isAllowed ? '' : 'This browser does not allow it: allow notifications for this page in its settings.');
    changeSettings({ notify: isAllowed ? notify : 'off' });
  };
  return html`<${SelectField}
      label="What they say of new mail while this page is hidden"
      value=${settings.value.notify}
      options=${Object.entries(NOTIFY_TEXTS)}
      change=${(value: string) => void change(value)}
    />
    <${Warning} text=${problem} />
    <p class="note">They never show the text of a message. A click on one opens its conversation.</p>`;
}
