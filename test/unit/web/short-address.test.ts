/** Addresses as the page shows them. */
import { expect, test, vi } from 'vitest';

vi.stubGlobal('location', { hash: '' });
vi.stubGlobal('addEventListener', () => undefined);

/** Code of a page is compiled apart. */
const STATE = '../../../src/web/mail/state.ts';
interface State {
  people: { value: object };
  shortAddress: (address: string) => string;
}
const { people, shortAddress } = (await import(STATE)) as State;

test.each([
  ['the owner of this host', 'owner@here', 'you'],
  ['an agent of this host', 'alice@here', 'alice'],
  ['an agent of this host that is called you', 'you@here', 'you@here'],
  ['an agent of another host', 'alice@there', 'alice@there'],
])('%s', (_whose, address, shown) => {
  people.value = { you: 'owner@here', agents: [], hosts: [], relay: null };
  expect(shortAddress(address)).toBe(shown);
});
